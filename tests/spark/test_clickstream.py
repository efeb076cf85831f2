"""examples/clickstream: every output is what a computation over all records at once gives.

Once in this process, and, with make soak, on a cluster whose workers have no Floodmark, while
driver and executors are killed FLOODMARK_CLICKSTREAM_ROUNDS times. There the line that `floodmark
pipeline package` prints is what runs. FLOODMARK_CLICKSTREAM_S3=1 keeps checkpoints and tables on an
S3. The computation is in kit/clickstream.py.
"""

import json
import os
import random
import signal
import sqlite3
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing as closed
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from floodmark import testing
from floodmark.testing.pipeline import PipelineUnderTest, Record, Row
from kit.broker import Broker
from kit.clickstream import (
    PAGES,
    Day,
    closing,
    expected_attributions,
    expected_numbers,
    expected_sessions,
    expected_views,
    expected_visitors,
    make_day,
)
from kit.packaged import packaged_line
from kit.pipeline_process import PipelineProcess, executors_of, spark_cluster
from kit.s3 import s3_class_path, s3_server, s3_settings
from kit.spark_jars import driver_jars
from kit.topics import end_offsets, fill_topic, make_topic, read_topic
from kit.waiting import wait_for

HOUSE = Path(__file__).parents[2]
OUTPUTS = ("views", "sessions", "attributed", "numbered")
EXAMPLE = HOUSE / "examples" / "clickstream"
ROUNDS = int(os.environ.get("FLOODMARK_CLICKSTREAM_ROUNDS", "1"))
CLICKS = 240
DATABASE = "clickstream.db"
TOPICS = ("clicks", "purchases", "pages", "views", "sessions", "numbered", "clicks-dead")


class Clickstream:
    """The example's topics, its packaged form, and everything that was sent."""

    def __init__(self, broker: Broker, folder: Path, master: str, s3: str | None) -> None:
        self.broker = broker
        self.folder = folder
        self.root = f"file://{folder}" if s3 is None else "s3a://floodmark"
        self.days: list[Day] = []
        for name in TOPICS:
            partitions = 2 if name in ("clicks", "purchases") else 1
            make_topic(broker.bootstrap, f"cs-{name}", partitions=partitions)
        pages = [(u.encode(), json.dumps({"url": u, "category": c})) for u, c in PAGES.items()]
        fill_topic(broker.bootstrap, "cs-pages", [(u, value.encode()) for u, value in pages])
        self._command = self._packaged(master, s3)

    def _packaged(self, master: str, s3: str | None) -> list[str]:
        conf = {"spark.jars": driver_jars(), **({} if s3 is None else _s3_conf(s3))}
        line = packaged_line(EXAMPLE, self.folder / "dist", master, self.root, conf)
        arguments = ["--bootstrap-server", self.broker.bootstrap, "--set", "prefix=cs-"]
        arguments += ["--set", f"tables={self.root}/tables", "--set", "records_per_batch=60"]
        arguments += ["--set", f"database=jdbc:sqlite:{self.folder / DATABASE}"]
        return [*line, *arguments]

    def send(self, day: Day) -> None:
        self.days.append(day)
        for topic, records in (
            ("cs-clicks", day.click_records()),
            ("cs-purchases", day.purchase_records()),
        ):
            # In turns, so that both partitions are equally far in time.
            for partition in (0, 1):
                share = records[partition::2]
                fill_topic(self.broker.bootstrap, topic, share, partition=partition)

    def start(self, *more: str) -> PipelineProcess:
        return PipelineProcess(
            more, self.folder / "pipeline.out", self._command, self.folder / "dist"
        )

    def finish(self) -> None:
        with self.start("--once") as process:
            assert process.wait(400) == 0, process.output()[-5000:]

    def written(self) -> int:
        topics = ("views", "numbered")
        return sum(sum(end_offsets(self.broker.bootstrap, f"cs-{t}").values()) for t in topics)

    def rows(self, topic: str, key: str) -> list[Row]:
        records = read_topic(self.broker.bootstrap, f"cs-{topic}")
        return [{key: (r.key or b"").decode(), **json.loads(r.value or b"")} for r in records]

    def check(self, spark: SparkSession) -> None:
        dead = read_topic(self.broker.bootstrap, "cs-clicks-dead")
        bad = [value for day in self.days for value in day.bad]
        assert Counter(r.value for r in dead) == Counter(bad)
        table = spark.read.parquet(f"{self.root}/tables/attributed").collect()
        keys = {"views": "event_id", "sessions": "visitor", "numbered": "visitor"}
        found = {name: self.rows(name, key) for name, key in keys.items()}
        found["attributed"] = [row.asDict() for row in table]
        check(self.days, {**found, "visitors": visitors_in(self.folder)})


def check(days: list[Day], found: dict[str, list[Row]]) -> None:
    views = Counter((r["event_id"], r["visitor"], r.get("category")) for r in found["views"])
    assert views == expected_views(days)
    assert _counted(found["numbered"], "visitor", "number") == expected_numbers(days)
    sessions = _counted(found["sessions"], "visitor", "start", "end", "clicks")
    assert sessions == expected_sessions(days)
    assert _counted(found["visitors"], "visitor", "clicks") == expected_visitors(days)
    joined = _counted(found["attributed"], "purchase_id", "click")
    assert joined == expected_attributions(days)


def visitors_in(folder: Path) -> list[Row]:
    with closed(sqlite3.connect(folder / DATABASE)) as database:
        found = database.execute("SELECT visitor, clicks FROM visitors").fetchall()
    return [{"visitor": visitor, "clicks": clicks} for visitor, clicks in found]


def _counted(rows: list[Row], *columns: str) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(row[column] for column in columns) for row in rows)


@pytest.mark.timeout(300)
def test_the_clickstream_is_what_a_computation_over_all_records_gives(
    spark: SparkSession, floodmark: testing.Broker, tmp_path: Path
) -> None:
    """In one process, in two runs, without kills: the quick form of the test below."""
    settings = {
        "tables": f"{tmp_path}/tables",
        "database": f"jdbc:sqlite:{tmp_path / DATABASE}",
    }
    stream = PipelineUnderTest(
        EXAMPLE, broker=floodmark, spark=spark, folder=tmp_path, settings=settings
    )
    days = [make_day(1, 0, CLICKS, late=0, first_number=0)]
    days.append(make_day(2, CLICKS, CLICKS, late=6, first_number=1000))
    stream.feed("pages", [{"url": u, "category": c} for u, c in PAGES.items()])
    for day, more in zip(days, (Day(), closing(100_000)), strict=True):
        clicks = [*day.click_records(), *more.click_records()]
        stream.feed("clicks", [Record(value, key) for key, value in clicks])
        purchases = [*day.purchase_records(), *more.purchase_records()]
        stream.feed("purchases", [Record(value, key) for key, value in purchases])
        stream.run()
    days.append(closing(100_000))
    bad = [value for day in days for value in day.bad]
    assert Counter(letter.value for letter in stream.dead_letters("clicks")) == Counter(bad)
    found = {name: stream.rows(name) for name in OUTPUTS}
    check(days, {**found, "visitors": visitors_in(tmp_path)})


@pytest.mark.soak
@pytest.mark.timeout(900 * ROUNDS)
def test_the_clickstream_is_exact_on_a_cluster_without_floodmark_under_kills(
    spark: SparkSession,
    broker: Broker,
    tmp_path: Path,
) -> None:
    hidden = [Path(sys.prefix), HOUSE / "src"]
    generator = random.Random(ROUNDS)
    with (
        _s3(spark, tmp_path) as s3,
        spark_cluster(tmp_path, hidden=hidden) as (master, workers),
    ):
        stream = Clickstream(broker, tmp_path, master, s3)
        # More than all rounds may wait for.
        clicks = CLICKS * ROUNDS
        stream.send(make_day(1, 0, clicks, late=0, first_number=0))
        for _ in range(ROUNDS):
            with stream.start() as process:
                wait_for(_wrote_more(stream, process, generator.randrange(1, 60)), 300)
                os.kill(executors_of(workers)[0], signal.SIGKILL)
                wait_for(_wrote_more(stream, process, generator.randrange(1, 60)), 300)
                process.kill()
        stream.finish()
        # Late clicks are an hour behind the watermark that the first part has left.
        stream.send(make_day(2, clicks, CLICKS, late=6, first_number=clicks + 1000))
        stream.send(closing(100_000))
        stream.finish()
        stream.check(spark)


@contextmanager
def _s3(spark: SparkSession, folder: Path) -> Iterator[str | None]:
    if not os.environ.get("FLOODMARK_CLICKSTREAM_S3"):
        yield None
        return
    with s3_server(folder, "floodmark") as endpoint:
        for name, value in s3_settings(endpoint).items():
            spark.conf.set(name.removeprefix("spark.hadoop."), value)
        yield endpoint


def _s3_conf(endpoint: str) -> dict[str, str]:
    places = ("spark.driver.extraClassPath", "spark.executor.extraClassPath")
    return s3_settings(endpoint) | dict.fromkeys(places, s3_class_path())


def _wrote_more(stream: Clickstream, process: PipelineProcess, rows: int) -> Callable[[], bool]:
    before = stream.written()

    def look() -> bool:
        assert process.is_running(), process.output()[-5000:]
        return stream.written() >= before + rows

    return look
