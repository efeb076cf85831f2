"""Options mean what they mean in Spark's connector; ranges are cut without loss."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from floodmark.client.cluster.view import TopicPartition
from floodmark.client.offsets import OffsetSpec
from floodmark.pipeline.authoring.tables import location
from floodmark.pipeline.datasource.batch_marks import Mark, Repeatable, check_plan, is_written
from floodmark.pipeline.datasource.batch_writers import exactly_once
from floodmark.pipeline.datasource.offsets import from_document, to_document
from floodmark.pipeline.datasource.options import (
    parse_duration_ms,
    parse_read_options,
    parse_write_options,
)
from floodmark.pipeline.datasource.planning import (
    OffsetRange,
    check_order,
    limit_evenly,
    split_ranges,
)
from floodmark.pipeline.errors import ExactlyOnceError, OptionError, root_cause, short_text
from floodmark.pipeline.spark.java import parse_major_version

BASE = {"kafka.bootstrap.servers": "h:1", "subscribe": "a,b"}
P0, P1 = TopicPartition("a", 0), TopicPartition("a", 1)


def test_names_do_not_distinguish_capitals_and_client_settings_pass_through() -> None:
    options = parse_read_options(
        {**BASE, "FAILONDATALOSS": "false", "kafka.fetch.max.wait.ms": "7"}, streaming=True
    )
    assert options.subscription.topics == ("a", "b")
    assert not options.fail_on_data_loss
    assert options.client.fetch_max_wait_ms == 7
    assert options.client.read_committed
    assert options.starting.default is OffsetSpec.LATEST
    assert parse_read_options(BASE, streaming=False).starting.default is OffsetSpec.EARLIEST


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"subscribe": ""}, "none is given"),
        ({"assign": '{"a":[0]}'}, "subscribe and assign are given"),
        ({"startingOffsets": "latest"}, "cannot begin at the latest"),
        ({"startingOffsets": '{"a":{"0":-1}}'}, "cannot begin at the latest"),
        ({"endingOffsets": "earliest"}, "cannot end at the earliest"),
        ({"startingOffsets": "[1]"}, "use earliest, latest or JSON"),
        ({"minPartitions": "0"}, "integer of at least 1"),
        ({"includeHeaders": "maybe"}, "true or false"),
        ({"kafka.auto.offset.reset": "latest"}, "use startingOffsets"),
        ({"kafka.isolation.level": "serializable"}, "isolation.level"),
        ({"minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "5"}, "no batch could satisfy"),
        ({"startingTimestamp": "yesterday"}, "milliseconds since 1970"),
        ({"kafka.bootstrap.servers": ""}, "kafka.bootstrap.servers is missing"),
        ({"kafka.bootstrap.servers": "host:port"}, "host:port is not a server address"),
        ({"kafka.security.protocol": "SASL_SSL"}, "GSSAPI is not supported"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_advice(changes: dict[str, str], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        parse_read_options({**BASE, **changes}, streaming=False)


@pytest.mark.parametrize("name", ["endingOffsets", "endingOffsetsByTimestamp", "endingTimestamp"])
def test_a_stream_has_no_end(name: str) -> None:
    with pytest.raises(OptionError, match=f"{name} is for batch reads"):
        parse_read_options({**BASE, name: "latest"}, streaming=True)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("kafka.key.serializer", "keys are written as they are"),
        ("kafka.value.serializer", "values are written as they are"),
        ("kafka.transactional.id", "exactly_once"),
        ("kafka.security.protocol", "use one of PLAINTEXT, SSL"),
    ],
)
def test_what_a_sink_cannot_do_is_refused(name: str, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        parse_write_options({"kafka.bootstrap.servers": "h:1", "topic": "t", name: "x"})


def test_a_named_plaintext_listener_is_no_reason_to_refuse() -> None:
    options = {**BASE, "kafka.security.protocol": "plaintext", "kafka.ssl.truststore.type": "PEM"}
    assert parse_read_options(options, streaming=False).client.read_committed


def test_rows_are_acknowledged_even_where_nobody_asked_for_it() -> None:
    options = {"kafka.bootstrap.servers": "h:1", "topic": "t"}
    assert parse_write_options({**options, "kafka.acks": "0"}).client.acks == 1
    assert parse_write_options({**options, "kafka.acks": "all"}).client.acks == -1


@pytest.mark.parametrize("name", ["acks", "enable.idempotence", "retries"])
def test_exactly_once_refuses_weaker_writes(name: str) -> None:
    options = {"kafka.bootstrap.servers": "h:1", "topic": "t"}
    exactly_once(query="q", options=options)
    value = "false" if name == "enable.idempotence" else "0"
    with pytest.raises(OptionError, match="exactly once needs the defaults"):
        exactly_once(query="q", options={**options, f"kafka.{name}": value})


def test_the_time_of_a_task_s_transaction_can_be_set() -> None:
    options = {"kafka.bootstrap.servers": "h:1", "topic": "t"}
    assert parse_write_options(options).client.transaction_timeout_ms == 600_000
    changed = {**options, "kafka.transaction.timeout.ms": "900000"}
    assert parse_write_options(changed).client.transaction_timeout_ms == 900_000


@pytest.mark.parametrize("name", ["minPartitions", "maxRecordsPerPartition"])
def test_the_last_records_of_keys_cannot_be_split(name: str) -> None:
    with pytest.raises(OptionError, match=f"option {name} cannot be used with latestByKey"):
        parse_read_options({**BASE, "latestByKey": "true", name: "4"}, streaming=False)


@pytest.mark.parametrize(
    ("starting", "ending", "is_refused"),
    [
        ({"startingOffsets": '{"a":{"0":8}}'}, {"endingOffsets": '{"a":{"0":5}}'}, True),
        ({"startingOffsets": '{"a":{"0":8}}'}, {}, True),
        ({"startingTimestamp": "8"}, {"endingTimestamp": "5"}, True),
        # The first record that is left lies behind the end: there is nothing, and no mistake.
        ({"startingOffsets": '{"a":{"0":-2}}'}, {"endingOffsets": '{"a":{"0":5}}'}, False),
        ({}, {"endingOffsets": '{"a":{"0":5}}'}, False),
    ],
)
def test_a_named_beginning_behind_the_end_is_refused(
    starting: dict[str, str], ending: dict[str, str], is_refused: bool
) -> None:
    options = parse_read_options({**BASE, **starting, **ending}, streaming=False)
    ranges = [OffsetRange(P0, 8, 5)]
    if not is_refused:
        check_order(ranges, options)
        return
    with pytest.raises(OptionError, match=r"starts at offset 8 .* after its end at 5"):
        check_order(ranges, options)


def test_durations_and_write_options() -> None:
    assert parse_duration_ms("maxTriggerDelay", "15m") == 900_000
    assert parse_duration_ms("maxTriggerDelay", "250") == 250
    assert parse_duration_ms("maxTriggerDelay", "20S") == 20_000
    with pytest.raises(OptionError, match="15m or 30s"):
        parse_duration_ms("maxTriggerDelay", "soon")
    options = parse_write_options({"kafka.bootstrap.servers": "h:1", "topic": "t"})
    assert (options.topic, options.client.batch_size) == ("t", 256 * 1024)


@settings(deadline=None)
@given(
    st.lists(st.integers(0, 50), min_size=1, max_size=5),
    st.none() | st.integers(1, 20),
    st.none() | st.integers(1, 20),
)
def test_ranges_are_cut_without_loss_or_overlap(
    sizes: list[int], min_partitions: int | None, max_records: int | None
) -> None:
    ranges = [OffsetRange(TopicPartition("a", i), 10, 10 + n) for i, n in enumerate(sizes)]
    pieces = split_ranges(ranges, min_partitions=min_partitions, max_records=max_records)
    for item in ranges:
        own = [piece for piece in pieces if piece.partition == item.partition]
        covered = [offset for piece in own for offset in range(piece.start, piece.end)]
        assert covered == list(range(item.start, item.end))
    assert all(piece.size > 0 for piece in pieces)
    if max_records is not None:
        assert all(piece.size <= max_records for piece in pieces)


@settings(deadline=None)
@given(st.integers(0, 100), st.integers(0, 100), st.integers(1, 60))
def test_a_limit_is_shared_in_proportion_and_every_partition_moves(
    first: int, second: int, limit: int
) -> None:
    limited = limit_evenly({P0: 5, P1: 5}, {P0: 5 + first, P1: 5 + second}, limit)
    taken = {p: offset - 5 for p, offset in limited.items()}
    assert sum(taken.values()) <= max(limit, 2)
    assert taken[P0] > 0 or first == 0
    assert taken[P1] > 0 or second == 0


def test_offsets_in_a_checkpoint_are_the_connectors_json() -> None:
    assert to_document({P1: 4, P0: 3}) == {"a": {"0": 3, "1": 4}}
    assert from_document({"a": {"0": 3, "1": 4}}) == {P0: 3, P1: 4}


@pytest.mark.parametrize(
    ("known", "batch", "tasks", "message"),
    [
        (None, 0, 2, None),
        (Mark(4, 2), 5, 3, None),
        (Mark(5, 2), 5, 2, None),
        (Mark(5, 2), 5, 3, "started with 2 tasks and would be repeated with 3"),
        (Mark(6, 2), 5, 2, "batch 6 already was"),
        (None, 5, 2, "no mark is left"),
        (Mark(3, 2), 5, 2, "the last mark is of batch 3"),
    ],
)
def test_a_batch_may_follow_or_repeat_and_nothing_else(
    known: Mark | None, batch: int, tasks: int, message: str | None
) -> None:
    wanted = Repeatable("q", batch, tasks)
    if message is None:
        check_plan(known, wanted, first=0)
        return
    with pytest.raises(ExactlyOnceError, match=message):
        check_plan(known, wanted, first=0)


def test_a_task_writes_after_its_last_batch_and_never_before_it() -> None:
    wanted = Repeatable("q", 5, 2)
    assert not is_written(Mark(4, 2), wanted, task=0)
    assert is_written(Mark(5, 2), wanted, task=0)
    with pytest.raises(ExactlyOnceError, match="batch 5 comes too late: batch 6 is written"):
        is_written(Mark(6, 2), wanted, task=0)


def test_marks_survive_the_way_through_an_offset() -> None:
    mark = Mark(7, 3, 100, "out")
    assert Mark.of_text(mark.to_text()) == mark
    assert Mark.of_text(Mark(7, 3).to_text()) == Mark(7, 3)
    assert Mark.of_old("out", 7, "tasks=3 rows=100") == mark
    for text in ("", "tasks=3", "something else"):
        with pytest.raises(ExactlyOnceError, match="someone else has committed"):
            Mark.of_text(text)
        with pytest.raises(ExactlyOnceError, match="someone else has committed"):
            Mark.of_old("out", 7, text)


def test_our_sentence_is_found_in_a_trace_of_spark() -> None:
    text = (
        "Job aborted: Traceback (most recent call last):\n  File x\n"
        "floodmark.pipeline.errors.DataLossError: offsets 1 to 2 are gone\n\n\tat org.apache.Foo\n"
        "\tat java.lang.Thread\nDriver stacktrace:\n"
    )
    assert root_cause(text) == "offsets 1 to 2 are gone"
    assert root_cause("java.lang.NullPointerException\n\tat x") is None


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("'path' is not specified.", "'path' is not specified."),
        ("[WRONG] It is wrong. SQLSTATE: 42\n\tat org.apache.Foo", "[WRONG] It is wrong."),
        ("must be started;\nfloodmark\n", "must be started"),
        ("it failed\n=== Streaming Query ===\nIdentifier: x", "it failed"),
        (
            "Traceback (most recent call last):\n"
            '  File "/x/site-packages/pyspark/worker.py", line 5, in main\n    f()\n'
            '  File "/home/me/pipeline.py", line 8, in share\n    return x / 0\n           ~~^~~\n'
            "ZeroDivisionError: division by zero\n=== Streaming Query ===\n",
            "ZeroDivisionError: division by zero (pipeline.py:8, in share)",
        ),
        (
            "An exception was raised by the Python Proxy. Traceback (most recent call last):\n"
            '  File "/x/py4j/clientserver.py", line 5, in _call_proxy\n    f()\n'
            "pyspark.errors.exceptions.captured.NumberFormatException: [CAST] Bad. SQLSTATE: 1\n",
            "NumberFormatException: [CAST] Bad.",
        ),
        ("", "ValueError"),
    ],
)
def test_what_spark_reports_becomes_a_sentence(text: str, told: str) -> None:
    assert short_text(ValueError(text)) == told


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("hdfs://host:9000/tables/x", "hdfs://host:9000/tables/x"),
        ("s3a://bucket/x", "s3a://bucket/x"),
        ("file:/tables/x", "file:/tables/x"),
        ("/tables/x", "/tables/x"),
        ("tables/x", str(Path("tables/x").resolve())),
    ],
)
def test_a_table_may_lie_at_an_address(path: str, found: str) -> None:
    assert location(path) == found


def test_java_versions_old_and_new() -> None:
    assert parse_major_version('openjdk version "17.0.15" 2025-04-15') == 17
    assert parse_major_version('java version "1.8.0_292"') == 8
    assert parse_major_version("nonsense") is None
