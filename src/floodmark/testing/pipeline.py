"""Runs a pipeline file on given rows: `feed` its sources, `run` it, look at its outputs.

    def test_words_are_counted(floodmark_pipeline):
        words = floodmark_pipeline("words")
        words.feed("lines", ["the river", "the bank"])
        words.run()
        assert {row["word"]: row["count"] for row in words.rows("counts")}["the"] == 2

The fixture `floodmark_pipeline` (see `plugin.py`) gives every test a broker of its own, and all
tests one local Spark. docs/testing.md shows more.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from floodmark.client.consumer.consumer import Consumer, ConsumerRecord
from floodmark.client.producer.producer import Producer
from floodmark.client.settings import ConsumerSettings
from floodmark.pipeline.authoring.checkpoints import open_checkpoint
from floodmark.pipeline.authoring.loading import load_pipeline

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from floodmark.pipeline.authoring.declarations import Output, Pipeline, Source
    from floodmark.testing.broker_thread import Broker

T = TypeVar("T")
Row = dict[str, Any]
_ERROR_HEADER = "floodmark.error"


@dataclass(frozen=True)
class Record:
    """A record to feed, where a row alone does not say enough. A value of None is a tombstone."""

    value: Any
    key: str | bytes | None = None
    headers: Mapping[str, str | bytes] = field(default_factory=dict)
    timestamp_ms: int | None = None
    partition: int | None = None


@dataclass(frozen=True)
class DeadLetter:
    """A record that did not parse, as it lies in the dead-letter topic."""

    value: bytes | None
    key: bytes | None
    headers: Mapping[str, str]

    @property
    def reason(self) -> str:
        return self.headers.get(_ERROR_HEADER, "")


class PipelineUnderTest:
    """A pipeline with its own topics, checkpoint and folder.

    - `path`: the pipeline file, or the folder with pipeline.py.
    - `settings`: override those in pipeline.toml, like --set.
    - `environment`: an environment in pipeline.toml, like --env.

    Relative paths of tables are below `folder`. The source topics exist from the start, with one
    partition each.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        broker: Broker,
        spark: SparkSession,
        folder: Path,
        settings: Mapping[str, Any] | None = None,
        environment: str | None = None,
    ) -> None:
        self._path = Path(path).resolve()
        self._broker = broker
        self._spark = spark
        self._folder = folder
        self._settings = {name: str(value) for name, value in (settings or {}).items()}
        self._environment = environment
        self._pipeline = self._load()
        topics = {
            topic for source in self._pipeline.sources.values() for topic in self._topics_of(source)
        }
        # Another pipeline of the same test may read or write them, too.
        for topic in sorted(topics - broker.broker.metadata.image.topics.keys()):
            broker.create_topic(topic)

    def feed(self, source: str, rows: Iterable[Any]) -> None:
        """Writes records to a source's topic: dicts as JSON, texts and bytes as they are.

        A dict for a lookup gets its key from the lookup's key column. Use `Record` for anything
        else: keys, headers, timestamps, tombstones.
        """
        declared = self._declared(source)
        topics = self._topics_of(declared)
        if len(topics) != 1:
            raise ValueError(f"source {source} reads {len(topics)} topics: feed them with a client")
        records = [_as_record(declared, row) for row in rows]
        asyncio.run(_send(self._broker.bootstrap_servers, topics[0], records))

    def run(self) -> None:
        """Processes everything that was fed so far, as `pipeline run --once` does.

        Further calls continue from the same checkpoint, so a test can show what a restart, a later
        watermark or kept state does.
        """
        from floodmark.pipeline.authoring.runner import Runner

        servers = self._broker.bootstrap_servers
        self._pipeline = pipeline = self._load()
        checkpoint = open_checkpoint(self._folder / "checkpoint", pipeline.name, servers)
        with contextlib.chdir(self._folder):
            runner = Runner(self._spark, pipeline, bootstrap_server=servers, checkpoint=checkpoint)
            runner.run(once=True)

    def rows(self, output: str) -> list[Row]:
        """All rows of an output so far. JSON records include their key under its column's name."""
        declared = self._output(output)
        if declared.topic is None:
            return self._rows_of_table(declared)
        return [_as_row(declared, record) for record in self.records(output)]

    def latest(self, output: str) -> dict[str, Row]:
        """The last row of each key, for outputs with `output_mode="update"`."""
        declared = self._output(output)
        found = {}
        for record in self.records(output):
            found[(record.key or b"").decode()] = _as_row(declared, record)
        return found

    def records(self, output: str) -> list[ConsumerRecord]:
        """The records of an output's topic, with keys, values and headers as bytes."""
        declared = self._output(output)
        if declared.topic is None:
            raise ValueError(f"{output} does not write to a topic: use rows({output!r})")
        return self._read(self._pipeline.text(declared.topic, declared.place))

    def dead_letters(self, source: str) -> list[DeadLetter]:
        """The records of a source that did not parse."""
        declared = self._declared(source)
        if declared.dead_letters is None:
            raise ValueError(f"source {source} has no dead_letters: bad records stop the pipeline")
        records = self._read(self._pipeline.text(declared.dead_letters, declared.place))
        return [
            DeadLetter(
                record.value,
                record.key,
                {name: (value or b"").decode(errors="replace") for name, value in record.headers},
            )
            for record in records
        ]

    def _load(self) -> Pipeline:
        return load_pipeline(self._path, environment=self._environment, overrides=self._settings)

    def _topics_of(self, source: Source) -> list[str]:
        text = self._pipeline.text(source.topic, source.place)
        return [topic.strip() for topic in text.split(",") if topic.strip()]

    def _declared(self, source: str) -> Source:
        return _named(self._pipeline.sources, source, "source")

    def _output(self, output: str) -> Output:
        return _named(self._pipeline.outputs, output, "output")

    def _rows_of_table(self, output: Output) -> list[Row]:
        if output.path is None:
            raise ValueError(f"{output.name} writes neither to a topic nor to files")
        path = self._folder / self._pipeline.text(output.path, output.place)
        if not path.exists():
            return []
        found = self._spark.read.format(output.spark_format).load(str(path)).collect()
        return [row.asDict(recursive=True) for row in found]

    def _read(self, topic: str) -> list[ConsumerRecord]:
        return asyncio.run(_read_all(self._broker.bootstrap_servers, topic))


def _named(known: Mapping[str, T], name: str, noun: str) -> T:
    if name not in known:
        raise ValueError(f"there is no {noun} {name}: there are {', '.join(known) or 'none'}")
    return known[name]


def _as_record(source: Source, row: Any) -> Record:
    record = row if isinstance(row, Record) else Record(row)
    if isinstance(record.value, Mapping) and source.key is not None and record.key is None:
        key = str(record.value[source.key])
        return Record(record.value, key, record.headers, record.timestamp_ms, record.partition)
    return record


def _as_bytes(value: Any) -> bytes | None:
    if value is None or isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode()
    # Dates and the like, as Spark reads them.
    return json.dumps(value, default=str).encode()


def _as_row(output: Output, record: ConsumerRecord) -> Row:
    if output.value_format == "raw":
        return {"key": record.key, "value": record.value}
    row: Row = {} if output.key is None else {output.key: (record.key or b"").decode()}
    row.update(json.loads(record.value or b"{}"))
    return row


async def _send(servers: str, topic: str, records: Iterable[Record]) -> None:
    async with Producer(servers) as producer:
        deliveries = [
            await producer.send(
                topic,
                _as_bytes(record.value),
                key=_as_bytes(record.key),
                headers=[(name, _as_bytes(value)) for name, value in record.headers.items()],
                timestamp_ms=record.timestamp_ms,
                partition=record.partition,
            )
            for record in records
        ]
        await producer.flush()
        for delivery in deliveries:
            await delivery


async def _read_all(servers: str, topic: str) -> list[ConsumerRecord]:
    """All committed records from the beginning to the end as it is now; none without a topic."""
    settings = ConsumerSettings(isolation_level="read_committed", allow_auto_create_topics=False)
    found: list[ConsumerRecord] = []
    async with Consumer(servers, settings) as consumer:
        topics = await consumer.cluster.refresh_all_topics()
        if topic not in topics.topics:
            return []
        partitions = await consumer.partitions_of(topic)
        await consumer.assign(partitions)
        consumer.seek_to_beginning()
        ends = await consumer.end_offsets(partitions)
        while any([await consumer.position(p) < ends[p] for p in partitions]):
            for partition, records in (await consumer.poll()).items():
                for offset, timestamp, key, value, headers in records:
                    record = ConsumerRecord(*partition, offset, timestamp, key, value, headers)
                    found.append(record)
    return found
