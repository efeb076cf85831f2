"""Rows into databases, each batch exactly once: a real PostgreSQL, and SQLite."""

import json
import re
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from floodmark.pipeline.authoring import jdbc_sink
from floodmark.pipeline.authoring.checkpoints import Checkpoint, open_checkpoint
from floodmark.pipeline.authoring.loading import load_pipeline
from floodmark.pipeline.authoring.runner import Runner
from floodmark.pipeline.errors import PipelineError
from kit.broker import Broker
from kit.checkpoints import forget_last_commit
from kit.postgres import Postgres, postgres
from kit.topics import fill_topic, make_topic
from kit.waiting import wait_for

FILE = """from pyspark.sql import functions as F
from floodmark.pipeline import Pipeline
pipeline = Pipeline("shop")
pipeline.source("orders", topic="{topic}",
                schema="id STRING, customer STRING, amount DOUBLE, n INT")

@pipeline.sink(format="jdbc", key="customer", output_mode="update",
               options={{"url": r"{url}", "dbtable": "{schema}totals"}})
def totals(orders):
    return orders.groupBy("customer").agg(F.sum("amount").alias("total"), F.count("*").alias("n"))

@pipeline.sink(format="jdbc", options={{"url": r"{url}", "dbtable": "{schema}orders"}})
def log(orders):
    return orders

@pipeline.sink(format="jdbc", key=["id", "customer"], latest_by="n",
               options={{"url": r"{url}", "dbtable": "{schema}newest"}})
def newest(orders):
    return orders
"""


class Shop:
    """A pipeline from one topic into three tables."""

    def __init__(
        self, spark: SparkSession, broker: Broker, topic: str, folder: Path, url: str
    ) -> None:
        self._spark, self._broker, self.topic, self.folder = spark, broker, topic, folder
        make_topic(broker.bootstrap, topic, partitions=2)
        schema = "shop." if "postgresql" in url else ""
        self.path = folder / "pipeline.py"
        self.path.write_text(FILE.format(topic=topic, url=url, schema=schema))

    def send(self, *rows: tuple[str, str, float, int]) -> None:
        values = [dict(zip(("id", "customer", "amount", "n"), row, strict=True)) for row in rows]
        records = [(None, json.dumps(value).encode()) for value in values]
        fill_topic(self._broker.bootstrap, self.topic, records)

    @property
    def checkpoint(self) -> Checkpoint:
        return open_checkpoint(self.folder / "checkpoint", "shop", self._broker.bootstrap)

    def run(self) -> None:
        pipeline = load_pipeline(self.path)
        server = self._broker.bootstrap
        Runner(self._spark, pipeline, bootstrap_server=server, checkpoint=self.checkpoint).run(
            once=True
        )

    def forget_commit(self, output: str) -> None:
        forget_last_commit(Path(self.checkpoint.of_output(output)))


@pytest.fixture(scope="module")
def database() -> Iterator[Postgres]:
    with postgres() as running:
        running.query("CREATE SCHEMA shop")
        yield running


Query = Callable[[str], list[list[str]]]


@pytest.fixture(params=["postgresql", "sqlite"])
def shop(
    request: pytest.FixtureRequest,
    spark: SparkSession,
    broker: Broker,
    topic: str,
    tmp_path: Path,
) -> tuple[Shop, Query]:
    if request.param == "postgresql":
        database: Postgres = request.getfixturevalue("database")
        database.query("DROP SCHEMA shop CASCADE")
        database.query("CREATE SCHEMA shop")
        return Shop(spark, broker, topic, tmp_path, database.url), database.query
    file = tmp_path / "shop.db"

    def query(sql: str) -> list[list[str]]:
        connection = sqlite3.connect(file)
        try:
            rows = connection.execute(sql.replace("shop.", "")).fetchall()
            return [[str(value) for value in row] for row in rows]
        finally:
            connection.close()

    return Shop(spark, broker, topic, tmp_path, f"jdbc:sqlite:{file}"), query


def test_repeated_batches_are_written_once_and_rows_replace_those_of_their_key(
    shop: tuple[Shop, Query],
) -> None:
    pipeline, query = shop
    pipeline.send(("1", "ann", 1.5, 1), ("1", "ann", 1.5, 2), ("2", "bob", 2.0, 1))
    pipeline.run()
    for output in ("totals", "log", "newest"):
        pipeline.forget_commit(output)
    pipeline.send(("3", "ann", 4.0, 1), ("1", "ann", 0.5, 3))
    pipeline.run()
    totals = query("SELECT customer, CAST(total AS VARCHAR), n FROM shop.totals ORDER BY 1")
    assert [[c, float(t), int(n)] for c, t, n in totals] == [["ann", 7.5, 4], ["bob", 2.0, 1]]
    assert query("SELECT COUNT(*), COUNT(DISTINCT id) FROM shop.orders") == [["5", "3"]]
    newest = query("SELECT id, n FROM shop.newest ORDER BY id")
    assert newest == [["1", "3"], ["2", "1"], ["3", "1"]]
    marks = query("SELECT COUNT(*), MIN(batch) FROM shop.floodmark_marks")
    assert marks == [["3", "1"]]


def test_a_database_that_goes_away_is_waited_for(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path, database: Postgres
) -> None:
    database.query("CREATE SCHEMA IF NOT EXISTS shop")
    database.query("DROP TABLE IF EXISTS shop.orders")
    pipeline = Shop(spark, broker, topic, tmp_path, database.url)
    text = pipeline.path.read_text()
    head, _, log, _ = re.split(r"(?=@pipeline)", text)
    pipeline.path.write_text(head + log)
    server, checkpoint = broker.bootstrap, pipeline.checkpoint
    loaded = load_pipeline(pipeline.path)
    runner = Runner(spark, loaded, bootstrap_server=server, checkpoint=checkpoint)
    with ThreadPoolExecutor(1) as threads:
        running = threads.submit(runner.run)
        try:
            pipeline.send(("1", "ann", 1.0, 1))
            wait_for(lambda: _ids(database) == [["1"]] or running.done(), 120)
            database.stop()
            pipeline.send(("2", "ann", 1.0, 1))
            # The batch meets the hole: it is planned, but cannot be complete.
            wait_for(lambda: checkpoint.last_planned("log") == 1 or running.done(), 120)
            database.start()
            wait_for(lambda: _ids(database) == [["1"], ["2"]] or running.done(), 120)
        finally:
            runner.stop()
        running.result(120)
    assert _ids(database) == [["1"], ["2"]]


def _ids(database: Postgres) -> list[list[str]]:
    try:
        return database.query("SELECT id FROM shop.orders ORDER BY id")
    except subprocess.CalledProcessError:
        return []


def test_several_rows_of_a_key_are_refused_and_repeated_tasks_are_staged_again(
    spark: SparkSession,
    broker: Broker,
    topic: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pipeline = Shop(spark, broker, topic, tmp_path, f"jdbc:sqlite:{tmp_path / 'shop.db'}")
    text = pipeline.path.read_text()
    only_newest = text[: text.index("@pipeline")] + text[text.rindex("@pipeline") :]
    pipeline.path.write_text(only_newest.replace(', latest_by="n"', ""))
    pipeline.send(("1", "ann", 1.0, 1), ("1", "ann", 2.0, 2))
    with pytest.raises(PipelineError, match="several rows for 1 values of id, customer"):
        pipeline.run()
    database = sqlite3.connect(tmp_path / "shop.db")
    assert database.execute("SELECT COUNT(*) FROM newest").fetchone() == (0,)
    # The same batch again, with a rule for its rows. Its tasks write twice the first time.
    pipeline.path.write_text(only_newest)
    stage, staged = jdbc_sink._BatchWriter._stage, []

    def stage_twice(writer: jdbc_sink._BatchWriter, name: str) -> None:
        staged.append(name)
        for _ in range(2 if len(staged) == 1 else 1):
            stage(writer, name)

    monkeypatch.setattr(jdbc_sink._BatchWriter, "_stage", stage_twice)
    pipeline.run()
    assert len(set(staged)) == 2
    assert database.execute("SELECT id, n FROM newest").fetchall() == [("1", 2)]
    tables = database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    assert sorted(name for (name,) in tables) == ["floodmark_marks", "newest"]
    database.close()
