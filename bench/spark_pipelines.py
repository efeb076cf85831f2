"""Our data source against Spark's own Kafka connector: same session, same topic, taking turns.

`python bench/spark_pipelines.py [--write]` fills a topic of our broker with 2,000,000 records of
124 bytes in 4 partitions and measures rows per second on `local[2]`. `--write` puts the table into
its section of docs/benchmarks.md. Wants a JDK and Maven (for the connector's jars).
"""

import argparse
import os
import shutil
import statistics
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import DataStreamReader
from report import write_section

from floodmark.pipeline.session import spark_session
from kit.broker import floodmark_broker
from kit.spark_jars import connector_jars
from kit.topics import make_topic

FORMATS = ("kafka", "floodmark")
SECTION = "## Pipelines on Spark"
STREAM = "streaming, availableNow"
STREAM_BATCH = "streaming, the batch alone"
# Enough for the JVM to compile what it repeats.
WARM_UPS = 2
BOUNDS = {"count": 1.5, "from_json with groupBy": 1.0, STREAM: 1.0, "sink": 1.0}


def session(folder: Path) -> AbstractContextManager[SparkSession]:
    """The session of `floodmark pipeline run`, with the connector's jars."""
    # Python keeps bytecode unless it is told not to, and so do the processes of a user's Spark.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    settings = {
        "spark.jars": connector_jars(),
        "spark.driver.memory": "2g",
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.local.dir": str(folder / "local"),
    }
    return spark_session("floodmark-bench", settings=settings)


class Bench:
    def __init__(self, spark: SparkSession, bootstrap: str, folder: Path, rows: int) -> None:
        self._spark = spark
        self._bootstrap = bootstrap
        self._folder = folder
        self._rows = rows
        self.topic = "bench"
        # What Spark's own report says of the last stream, without the start of the query.
        self.batch_seconds = 0.0

    def fill(self) -> None:
        """JSON values that make records of 124 bytes, without a key."""
        make_topic(self._bootstrap, self.topic, partitions=4)
        head = F.concat(
            F.lit('{"id":'),
            F.lpad(F.col("id").cast("string"), 9, "1"),
            F.lit(',"kind":"k'),
            (F.col("id") % 10).cast("string"),
            F.lit('","amount":'),
            F.lpad((F.col("id") % 1000).cast("string"), 3, "1"),
            F.lit(',"note":"'),
        )
        value = F.concat(F.rpad(head, 112, "water "), F.lit('"}')).alias("value")
        rows = self._spark.range(0, self._rows, numPartitions=4).select(
            value, (F.col("id") % 4).cast("int").alias("partition")
        )
        self._write(rows, "floodmark", self.topic)

    def _write(self, rows: DataFrame, source: str, topic: str) -> None:
        writer = rows.write.format(source).option("topic", topic)
        writer.option("kafka.bootstrap.servers", self._bootstrap).mode("append").save()

    def _read(self, source: str) -> DataFrame:
        reader = self._spark.read.format(source).option("subscribe", self.topic)
        return reader.option("kafka.bootstrap.servers", self._bootstrap).load()

    def count(self, source: str) -> None:
        assert self._read(source).count() == self._rows

    def json(self, source: str) -> None:
        parsed = self._read(source).select(
            F.from_json(F.col("value").cast("string"), "id LONG, kind STRING, amount INT").alias(
                "v"
            )
        )
        found = parsed.groupBy("v.kind").agg(F.sum("v.amount"), F.count("*").alias("n")).collect()
        assert sum(row.n for row in found) == self._rows

    def stream(self, source: str) -> None:
        reader: DataStreamReader = self._spark.readStream.format(source)
        reader = reader.option("subscribe", self.topic).option("startingOffsets", "earliest")
        frame = reader.option("kafka.bootstrap.servers", self._bootstrap).load()
        checkpoint = self._folder / uuid.uuid4().hex
        writer = frame.writeStream.format("noop").trigger(availableNow=True)
        query = writer.option("checkpointLocation", str(checkpoint)).start()
        query.awaitTermination()
        assert sum(p["numInputRows"] for p in query.recentProgress) == self._rows
        self.batch_seconds = sum(p["durationMs"]["addBatch"] for p in query.recentProgress) / 1000
        shutil.rmtree(checkpoint)

    def sink(self, source: str) -> None:
        topic = f"sink-{uuid.uuid4().hex[:8]}"
        make_topic(self._bootstrap, topic, partitions=4)
        rows = self._spark.range(0, self._rows, numPartitions=4).select(
            F.rpad(F.col("id").cast("string"), 114, "water ").alias("value")
        )
        self._write(rows, source, topic)


class WorkerMemory:
    """The largest resident size of any Python process below this one, sampled."""

    def __init__(self) -> None:
        self.peak_bytes = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> "WorkerMemory":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._stop.wait(0.2):
            for status in Path("/proc").glob("[0-9]*/status"):
                try:
                    text = status.read_text()
                    command = (status.parent / "cmdline").read_bytes()
                except OSError:
                    continue  # it has ended meanwhile
                if b"pyspark" in command and b"java" not in command.split(b"\0")[0]:
                    size = [line for line in text.splitlines() if line.startswith("VmRSS")]
                    if size:
                        self.peak_bytes = max(self.peak_bytes, int(size[0].split()[1]) * 1024)


class Result:
    """The rates of one case by data source, round by round."""

    def __init__(self) -> None:
        self.rates: dict[str, list[float]] = {source: [] for source in FORMATS}

    def median(self, source: str) -> float:
        return statistics.median(self.rates[source])

    @property
    def ratio(self) -> float:
        return self.median("floodmark") / self.median("kafka")

    @property
    def spread(self) -> str:
        """The smallest and the largest ratio of two runs beside each other."""
        pairs = zip(self.rates["floodmark"], self.rates["kafka"], strict=True)
        ratios = [ours / theirs for ours, theirs in pairs]
        return f"{min(ratios):.2f} to {max(ratios):.2f}"


def measure(bench: Bench, rounds: int, rows: int) -> dict[str, Result]:
    cases: dict[str, Callable[[str], None]] = {
        "count": bench.count,
        "from_json with groupBy": bench.json,
        STREAM: bench.stream,
        "sink": bench.sink,
    }
    results: dict[str, Result] = {}
    for name, case in cases.items():
        result, batches = Result(), Result()
        for turn in range(WARM_UPS + rounds):
            for source in FORMATS:
                begin = time.monotonic()
                case(source)
                rate = rows / (time.monotonic() - begin)
                print(f"{name:24} {source:10} {rate:12,.0f} rows/s", file=sys.stderr, flush=True)
                if turn >= WARM_UPS:
                    result.rates[source].append(rate)
                    batches.rates[source].append(rows / (bench.batch_seconds or 1))
        if name == STREAM:
            results[STREAM_BATCH] = batches
        results[name] = result
    return results


def markdown(results: dict[str, Result], rows: int, rounds: int, memory: WorkerMemory) -> str:
    lines = [
        SECTION,
        "",
        f"Made by `python bench/spark_pipelines.py`: {rows:,} records of 124 bytes in 4 partitions",
        f"of a Floodmark broker, Spark 4.2.0 on local[2], median of {rounds} rounds after",
        f"{WARM_UPS} unmeasured ones, the two data sources taking turns in one session, which is",
        "that of `floodmark pipeline run`, with bytecode kept, as Python does by default.",
        "The broker shares the two cores; spark.python.unix.domain.socket.enabled is true. The",
        "spread is that of the ratios of single rounds.",
        "",
        "| case | Spark's connector (rows/s) | ours (rows/s) | ratio | spread | bound | kept |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, result in results.items():
        bound = BOUNDS.get(name)
        judged = " |  |" if bound is None else f" >= {bound:g} | {_kept(result.ratio >= bound)} |"
        numbers = f"| {name} | {result.median('kafka'):,.0f} | {result.median('floodmark'):,.0f} |"
        lines.append(f"{numbers} {result.ratio:.2f} | {result.spread} |{judged}")
    lines += [
        "",
        "A stream of ours begins with a new Python process, which Spark starts once per query. It",
        "takes about 0.3 s in a session of ours, and 0.8 s in one that compiles Spark's zipped",
        "PySpark at every start (docs/pipelines.md, Speed). The batch alone is Spark's own time",
        "for `addBatch`: what counts for a query that goes on.",
    ]
    lines += ["", f"Largest Python worker: {memory.peak_bytes / 2**20:,.0f} MiB resident.", ""]
    return "\n".join(lines)


def _kept(is_kept: bool) -> str:
    return "yes" if is_kept else "**no**"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as name,
        floodmark_broker(Path(name) / "broker") as broker,
        WorkerMemory() as memory,
        session(Path(name)) as spark,
    ):
        bench = Bench(spark, broker.bootstrap, Path(name), arguments.rows)
        bench.fill()
        results = measure(bench, arguments.rounds, arguments.rows)
        section = markdown(results, arguments.rows, arguments.rounds, memory)
    print(section)
    if arguments.write:
        write_section(SECTION, section)


if __name__ == "__main__":
    main()
