"""A declared pipeline with every kind of step, run twice on real Spark over the same checkpoint."""

import json
import uuid
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from floodmark.pipeline.authoring.checkpoints import open_checkpoint
from floodmark.pipeline.authoring.loading import load_pipeline
from floodmark.pipeline.authoring.runner import Runner
from floodmark.pipeline.authoring.template import write_template
from floodmark.pipeline.errors import PipelineError
from kit.broker import Broker
from kit.topics import delete_topic, fill_topic, make_topic, read_topic

HERE = Path(__file__).parent
SPOILED = b'{"id": "r9", "level": "high'


@dataclass(frozen=True)
class Ran:
    """What the runs left behind."""

    broker: Broker
    prefix: str
    tables: Path

    def values(self, name: str) -> list[dict[str, object]]:
        records = read_topic(self.broker.bootstrap, f"{self.prefix}-{name}")
        return [{"key": (r.key or b"").decode(), **json.loads(r.value or b"{}")} for r in records]


def reading(number: int, station: str, level: float, second: int) -> tuple[bytes, bytes]:
    at = f"2026-01-01T12:{second // 60:02d}:{second % 60:02d}Z"
    row = {"id": f"r{number}", "station": station, "level": level, "at": at}
    return station.encode(), json.dumps(row).encode()


@pytest.fixture(scope="module")
def ran(spark: SparkSession, broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Ran:
    prefix = f"gauges-{uuid.uuid4().hex[:8]}"
    folder = tmp_path_factory.mktemp("gauges")
    bootstrap = broker.bootstrap
    for name in ("readings", "alarms", "stations", "dead", "levels", "named", "highest"):
        make_topic(bootstrap, f"{prefix}-{name}", partitions=2 if name == "readings" else 1)
    stations = [(s, json.dumps({"station": s, "river": r})) for s, r in _STATIONS]
    fill_topic(bootstrap, f"{prefix}-stations", [(s.encode(), v.encode()) for s, v in stations])
    fill_topic(bootstrap, f"{prefix}-alarms", [(None, b"a,rising,2026-01-01T12:00:03Z")])
    first = [reading(1, "a", 1.0, 0), reading(1, "a", 1.0, 0), reading(2, "b", 5.0, 10)]
    fill_topic(bootstrap, f"{prefix}-readings", first)
    fill_topic(bootstrap, f"{prefix}-readings", [(b"poison", SPOILED)])
    _run(spark, broker, prefix, folder)
    # The second run moves the watermark, so that windows and outer joins are complete.
    fill_topic(bootstrap, f"{prefix}-alarms", [(None, b"b,falling,2026-01-01T12:10:00Z")])
    fill_topic(
        bootstrap, f"{prefix}-readings", [reading(3, "a", 3.0, 600), reading(4, "b", 2.0, 601)]
    )
    _run(spark, broker, prefix, folder)
    return Ran(broker, prefix, folder / "tables")


_STATIONS = (("a", "Old name"), ("b", "Elbe"), ("a", "Rhine"))


def _run(spark: SparkSession, broker: Broker, prefix: str, folder: Path) -> None:
    settings = {"prefix": prefix, "tables": str(folder / "tables")}
    pipeline = load_pipeline(HERE / "gauges", overrides=settings)
    checkpoint = open_checkpoint(folder / "checkpoint", pipeline.name, broker.bootstrap)
    Runner(spark, pipeline, bootstrap_server=broker.bootstrap, checkpoint=checkpoint).run(once=True)


def test_windows_are_written_once_when_the_watermark_has_passed(ran: Ran) -> None:
    rows = sorted((r["key"], r["minute"], r["mean"], r["n"]) for r in ran.values("levels"))
    assert rows == [("a", "12:00", 1.0, 2), ("b", "12:00", 5.0, 1)]


def test_a_left_outer_join_of_streams_keeps_rows_without_a_match(
    ran: Ran, spark: SparkSession
) -> None:
    rows = spark.read.parquet(str(ran.tables / "matched")).collect()
    found = Counter((r.id, r.kind) for r in rows)
    assert found == {("r1", "rising"): 2, ("r2", None): 1}


def test_a_stream_is_joined_with_the_latest_row_of_each_key(ran: Ran) -> None:
    rows = Counter((r["key"], r.get("river")) for r in ran.values("named"))
    assert rows == {("r1", "Rhine"): 2, ("r2", "Elbe"): 1, ("r3", "Rhine"): 1, ("r4", "Elbe"): 1}


def test_duplicates_are_dropped(ran: Ran, spark: SparkSession) -> None:
    rows = spark.read.parquet(str(ran.tables / "distinct")).collect()
    assert sorted((r.id, r.station) for r in rows) == [
        ("r1", "a"),
        ("r2", "b"),
        ("r3", "a"),
        ("r4", "b"),
    ]


def test_keyed_state_lives_from_run_to_run(ran: Ran) -> None:
    rows = sorted((r["key"], r["level"]) for r in ran.values("highest"))
    assert rows == [("a", 1.0), ("a", 3.0), ("b", 5.0)]


def test_a_record_that_does_not_parse_becomes_a_dead_letter_with_its_origin(ran: Ran) -> None:
    (letter,) = read_topic(ran.broker.bootstrap, f"{ran.prefix}-dead")
    assert (letter.key, letter.value) == (b"poison", SPOILED)
    headers = dict(letter.headers)
    assert headers["floodmark.topic"] == f"{ran.prefix}-readings".encode()
    assert headers["floodmark.source"] == b"readings"
    assert b"does not parse as json" in (headers["floodmark.error"] or b"")
    assert (headers["floodmark.offset"] or b"").isdigit()


def test_a_topic_that_is_made_anew_between_two_runs_is_data_loss(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    name = f"words-{uuid.uuid4().hex[:8]}"
    pipeline = load_pipeline(write_template(tmp_path / name))
    make_topic(broker.bootstrap, f"{name}-counts")

    def run() -> None:
        make_topic(broker.bootstrap, f"{name}-words")
        # The second time more than before: the offset that the query stands at is there again.
        fill_topic(broker.bootstrap, f"{name}-words", [(None, b"word")] * next(counts))
        checkpoint = open_checkpoint(tmp_path / "checkpoint", name, broker.bootstrap)
        runner = Runner(spark, pipeline, bootstrap_server=broker.bootstrap, checkpoint=checkpoint)
        runner.run(once=True)

    counts = iter((2, 5))
    run()
    delete_topic(broker.bootstrap, f"{name}-words")
    with pytest.raises(PipelineError, match=f"topic {name}-words was deleted and recreated"):
        run()


def test_the_template_of_a_new_pipeline_runs(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    name = f"words-{uuid.uuid4().hex[:8]}"
    folder = write_template(tmp_path / name)
    make_topic(broker.bootstrap, f"{name}-words")
    make_topic(broker.bootstrap, f"{name}-counts")
    fill_topic(broker.bootstrap, f"{name}-words", [(None, b"the river rises"), (None, b"The end")])
    pipeline = load_pipeline(folder)
    checkpoint = open_checkpoint(tmp_path / "checkpoint", pipeline.name, broker.bootstrap)
    Runner(spark, pipeline, bootstrap_server=broker.bootstrap, checkpoint=checkpoint).run(once=True)
    counts = {r.key: r.value for r in read_topic(broker.bootstrap, f"{name}-counts")}
    assert counts == {
        b"the": b'{"count":2}',
        b"river": b'{"count":1}',
        b"rises": b'{"count":1}',
        b"end": b'{"count":1}',
    }
