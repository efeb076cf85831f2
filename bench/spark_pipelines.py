"""Our data source against Spark's own Kafka connector: same session, same topic, taking turns.

`python bench/spark_pipelines.py [--write]` fills a topic of our broker with 2,000,000 records of
124 bytes in 4 partitions and measures rows per second on `local[2]`: first in a plain session, as
anybody makes it, then in that of `floodmark pipeline run`; each has a process of its own. `--write`
puts the tables into their section of docs/benchmarks.md. Wants a JDK and Maven (for the connector's
jars).
"""

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import DataStreamReader
from report import write_section

from floodmark.pipeline import register
from floodmark.pipeline.spark.session import spark_session
from kit.broker import floodmark_broker
from kit.spark_jars import connector_jars
from kit.topics import make_topic

FORMATS = ("kafka", "floodmark")
SECTION = "## Pipelines on Spark"
STREAM = "streaming, availableNow"
STREAM_BATCH = "streaming, the batch alone"
# Enough for the JVM to compile what it repeats.
WARM_UPS = 2
# What holds one fetched answer and its columns, with room; a partition may be of any size.
WORKER_MEMORY_BOUND_BYTES = 512 * 1024 * 1024
BOUNDS = {"count": 1.5, "from_json with groupBy": 1.0, STREAM: 1.0, "sink": 1.0}


@contextmanager
def plain_session(folder: Path) -> Iterator[SparkSession]:
    """What a reader would write: nothing is set but the connector's jars."""
    spark = (
        SparkSession.builder.master("local[2]").config("spark.jars", connector_jars()).getOrCreate()
    )
    register(spark)
    yield spark
    spark.stop()


@contextmanager
def own_session(folder: Path) -> Iterator[SparkSession]:
    """The session of `floodmark pipeline run`, with the connector's jars."""
    settings = {
        "spark.jars": connector_jars(),
        "spark.driver.memory": "2g",
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.local.dir": str(folder / "local"),
    }
    with spark_session("floodmark-bench", settings=settings) as spark:
        yield spark


SESSIONS = {"plain": plain_session, "own": own_session}


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

    def __init__(self, rates: dict[str, list[float]]) -> None:
        self.rates = rates

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


def measure(bench: Bench, rounds: int, rows: int) -> dict[str, dict[str, list[float]]]:
    """The rates of each case by data source; the sources take turns."""
    cases: dict[str, Callable[[str], None]] = {
        "count": bench.count,
        "from_json with groupBy": bench.json,
        STREAM: bench.stream,
        "sink": bench.sink,
    }
    found: dict[str, dict[str, list[float]]] = {}
    for name, case in cases.items():
        rates: dict[str, list[float]] = {source: [] for source in FORMATS}
        batches: dict[str, list[float]] = {source: [] for source in FORMATS}
        for turn in range(WARM_UPS + rounds):
            for source in FORMATS:
                begin = time.monotonic()
                case(source)
                rate = rows / (time.monotonic() - begin)
                print(f"{name:24} {source:10} {rate:12,.0f} rows/s", file=sys.stderr, flush=True)
                if turn >= WARM_UPS:
                    rates[source].append(rate)
                    batches[source].append(rows / (bench.batch_seconds or 1))
        if name == STREAM:
            found[STREAM_BATCH] = batches
        found[name] = rates
    return found


def run_session(name: str, bootstrap: str, rows: int, rounds: int) -> dict[str, Result]:
    """The measurements of one session, made by this program in a process of its own."""
    command = [sys.executable, __file__, "--rows", str(rows), "--rounds", str(rounds)]
    command += ["--session", name, "--bootstrap-server", bootstrap]
    print(f"session: {name}", file=sys.stderr)
    output = subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout
    rates = json.loads(output.splitlines()[-1])
    return {case: Result(by_source) for case, by_source in rates.items()}


def measure_session(name: str, bootstrap: str, rows: int, rounds: int) -> None:
    """What runs in that process; the last line of its output is the result."""
    with tempfile.TemporaryDirectory() as folder, SESSIONS[name](Path(folder)) as spark:
        bench = Bench(spark, bootstrap, Path(folder), rows)
        bench.fill()
        rates = measure(bench, rounds, rows)
    print(json.dumps(rates))


INTRODUCTIONS = {
    "plain": """A plain session, as anybody makes it:
`SparkSession.builder.master("local[2]").getOrCreate()` with the connector's jars, then
`floodmark.pipeline.register(spark)`; nothing else is set, and the environment is as it was.""",
    "own": """The session of `floodmark pipeline run`, with spark.driver.memory=2g and
spark.python.unix.domain.socket.enabled=true.""",
}


def markdown(
    found: Mapping[str, Mapping[str, Result]], rows: int, rounds: int, memory: WorkerMemory
) -> str:
    lines = [
        SECTION,
        "",
        f"Made by `python bench/spark_pipelines.py`: {rows:,} records of 124 bytes in 4 partitions",
        f"of a Floodmark broker, Spark 4.2.0 on local[2], median of {rounds} rounds after",
        f"{WARM_UPS} unmeasured ones, the two data sources taking turns in one session. The broker",
        "shares the two cores. The spread is that of the ratios of single rounds.",
    ]
    for session, results in found.items():
        lines += ["", INTRODUCTIONS[session], "", *table(results)]
    lines += [
        "",
        "A stream of ours begins with a new Python process, which Spark starts once per query:",
        "about 0.25 s, and 0.75 s where it compiles Spark's zipped PySpark, as in a session that",
        "finds the data source by its name without `register` (docs/pipelines.md, Speed). The",
        "batch alone is Spark's own time for `addBatch`: what counts for a query that goes on.",
        "",
        f"Largest Python worker: {memory.peak_bytes / 2**20:,.0f} MiB resident "
        f"(bound: {WORKER_MEMORY_BOUND_BYTES // 2**20} MiB, "
        f"kept: {_kept(memory.peak_bytes <= WORKER_MEMORY_BOUND_BYTES)}), whatever the size of the "
        "partition (tests/spark/test_memory.py).",
        "",
    ]
    return "\n".join(lines)


def table(results: Mapping[str, Result]) -> Iterator[str]:
    yield "| case | Spark's connector (rows/s) | ours (rows/s) | ratio | spread | bound | kept |"
    yield "|---|---|---|---|---|---|---|"
    for name, result in results.items():
        bound = BOUNDS.get(name)
        judged = " |  |" if bound is None else f" >= {bound:g} | {_kept(result.ratio >= bound)} |"
        numbers = f"| {name} | {result.median('kafka'):,.0f} | {result.median('floodmark'):,.0f} |"
        yield f"{numbers} {result.ratio:.2f} | {result.spread} |{judged}"


def _kept(is_kept: bool) -> str:
    return "yes" if is_kept else "**no**"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--session", choices=list(SESSIONS), help="only this one, as JSON")
    parser.add_argument("--bootstrap-server", help="with --session: the broker to measure")
    given = parser.parse_args()
    if given.session is not None and given.bootstrap_server is not None:
        measure_session(given.session, given.bootstrap_server, given.rows, given.rounds)
        return
    with tempfile.TemporaryDirectory() as folder, WorkerMemory() as memory:
        found = {}
        for name in [given.session] if given.session else SESSIONS:
            # A broker for each, so that the second finds the disk as the first did.
            with floodmark_broker(Path(folder) / name) as broker:
                found[name] = run_session(name, broker.bootstrap, given.rows, given.rounds)
            shutil.rmtree(Path(folder) / name)
        section = markdown(found, given.rows, given.rounds, memory)
    print(section)
    if given.write:
        write_section(SECTION, section)


if __name__ == "__main__":
    main()
