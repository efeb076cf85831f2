"""A condition narrows a read as far as it may, and never further."""

import pytest

from floodmark.client.cluster.view import TopicPartition
from floodmark.pipeline.datasource.options import parse_read_options
from floodmark.pipeline.datasource.read_limits import Comparison, Limits, limits_of
from floodmark.pipeline.errors import OptionError


@pytest.mark.parametrize(
    ("comparisons", "limits"),
    [
        ([], Limits()),
        ([("key", "=", (1,))], Limits()),
        ([("offset", ">", (5,)), ("offset", ">=", (3,))], Limits(first_offset=6)),
        ([("offset", "<", (5,)), ("offset", "<=", (9,))], Limits(end_offset=5)),
        ([("offset", "=", (4, 2))], Limits(first_offset=2, end_offset=5)),
        ([("offset", "=", ())], Limits(end_offset=0)),
        ([("partition", "=", (1, 2)), ("partition", "=", (2, 3))], Limits(partitions=(2,))),
        ([("partition", "<=", (1,))], Limits(end_partition=2)),
        ([("topic", "=", ("a", "b")), ("topic", "=", ("b",))], Limits(topics=("b",))),
        ([("topic", ">", ("a",))], Limits()),
        ([("timestamp", ">", (1_999,))], Limits(first_timestamp_ms=1)),
        ([("timestamp", "=", (9_000, 5_000))], Limits(first_timestamp_ms=5)),
        (
            [("timestamp", ">=", (5_000,)), ("timestamp", ">", (7_000,))],
            Limits(first_timestamp_ms=7),
        ),
        # A later record may be older than an earlier one.
        ([("timestamp", "<", (5_000,)), ("timestamp", "<=", (4_000,))], Limits()),
    ],
)
def test_comparisons_narrow_a_read(
    comparisons: list[tuple[str, str, tuple[int | str, ...]]], limits: Limits
) -> None:
    found = limits_of(Comparison(*item) for item in comparisons)
    assert found == limits
    options = {"kafka.bootstrap.servers": "h:1", "subscribe": "a", "readLimits": found.to_text()}
    sent = parse_read_options(options, streaming=False).limits
    assert sent is not None
    assert sent.covers(TopicPartition("b", 1)) == found.covers(TopicPartition("b", 1))
    assert sent.first_timestamp_ms == found.first_timestamp_ms


def test_partitions_outside_are_not_read() -> None:
    limits = Limits(topics=("a",), partitions=(0, 1, 2), first_partition=1, end_partition=2)
    inside = [
        partition
        for partition in (TopicPartition(t, p) for t in ("a", "b") for p in range(4))
        if limits.covers(partition)
    ]
    assert inside == [TopicPartition("a", 1)]


@pytest.mark.parametrize("more", [{"readLimits": "{"}, {"readLimits": '{"colour": 1}'}])
def test_limits_that_nobody_made_are_refused(more: dict[str, str]) -> None:
    options = {"kafka.bootstrap.servers": "h:1", "subscribe": "a", **more}
    with pytest.raises(OptionError, match=r"use floodmark\.pipeline\.where"):
        parse_read_options(options, streaming=False)


def test_limits_and_last_records_exclude_each_other() -> None:
    options = {"kafka.bootstrap.servers": "h:1", "subscribe": "a"}
    options |= {"readLimits": Limits().to_text(), "latestByKey": "true"}
    with pytest.raises(OptionError, match="a key's last record may be anywhere"):
        parse_read_options(options, streaming=False)
