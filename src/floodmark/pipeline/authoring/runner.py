"""Runs a pipeline: one streaming query per output, watched until they end or are stopped.

Called by `floodmark pipeline run` and the demo. If one query fails, the others are stopped, and the
root cause is reported.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import functions as F

from floodmark.pipeline.authoring.building import Builder, Built
from floodmark.pipeline.authoring.checking import (
    check_folders,
    check_known_batches,
    check_sources,
    check_streaming,
    check_topic_columns,
    ineffective_starts,
)
from floodmark.pipeline.authoring.checking_state import check_state
from floodmark.pipeline.authoring.checking_targets import check_loops, check_target
from floodmark.pipeline.authoring.checkpoints import Checkpoint
from floodmark.pipeline.authoring.declarations import DeclarationError, Pipeline
from floodmark.pipeline.authoring.loading import finished
from floodmark.pipeline.authoring.progress import OBSERVED, Follower, OutputProgress, offsets_in
from floodmark.pipeline.authoring.replays import remember_start
from floodmark.pipeline.authoring.run_records import RunRecorder
from floodmark.pipeline.authoring.source_clusters import keep_clusters, show_positions
from floodmark.pipeline.authoring.targets import start_query
from floodmark.pipeline.datasource.offsets import from_document
from floodmark.pipeline.errors import PipelineError, short_text
from floodmark.pipeline.spark.worker_errors import worker_advice

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

POLL_SECONDS = 0.5
# How long a stop waits for the current batch. Repeating it after a restart is harmless.
STOP_PATIENCE_SECONDS = 30.0
# Spark's message when a Python process took too long to start. The checkpoint makes it safe to
# restart.
_STARVED = "Python worker failed to connect back"
MOST_RESTARTS = 5
# Spark's messages when the state or sources in a checkpoint do not match the query.
_OTHER_CODE = (
    "sources in the checkpoint offsets",
    "STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE",
    "STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE",
    "STREAMING_STATEFUL_OPERATOR_NOT_MATCH",
)

Show = Callable[[list[OutputProgress]], None]

logger = logging.getLogger(__name__)


class Runner:
    def __init__(
        self,
        spark: SparkSession,
        pipeline: Pipeline,
        *,
        bootstrap_server: str,
        checkpoint: Checkpoint | None = None,
    ) -> None:
        """Without a checkpoint it can only check. The caller holds the checkpoint's lock."""
        pipeline = finished(pipeline)
        self._spark = spark
        self._pipeline = pipeline
        self._bootstrap_server = bootstrap_server
        self._checkpoint = checkpoint
        self._builder = Builder(spark, pipeline, bootstrap_server, checkpoint)
        self._queries: dict[str, StreamingQuery] = {}
        self._followers: dict[str, Follower] = {}
        self._stopping = threading.Event()
        self._saved_ids: dict[str, str] = {}

    def check(self) -> list[Built]:
        """Builds every plan and asks Spark whether it can run as a stream. Starts nothing."""
        built = self._builder.build_all()
        for item in built:
            check_topic_columns(item)
            check_streaming(self._spark, item)
            check_target(self._spark, item)
            if self._checkpoint is not None:
                check_known_batches(self._spark, item, self._checkpoint)
                check_state(self._spark, item, self._checkpoint)
                for text in ineffective_starts(item, self._checkpoint):
                    logger.warning(text)
        check_folders(built)
        check_loops(built)
        check_sources(self._pipeline, self._bootstrap_server)
        return built

    def run(self, *, once: bool = False, show: Show | None = None) -> None:
        """Runs until every query has ended (`once`), one has failed, or `stop` was called."""
        assert self._checkpoint is not None
        recorder = RunRecorder(self._checkpoint.folder)
        try:
            self._run(self._checkpoint, recorder, once, show)
        except KeyboardInterrupt:
            recorder.ended(None)
            raise
        except BaseException as error:
            recorder.ended(short_text(error))
            raise
        recorder.ended(None)

    def _run(
        self, checkpoint: Checkpoint, recorder: RunRecorder, once: bool, show: Show | None
    ) -> None:
        built = {item.output.name: item for item in self.check()}
        recorder.started(built)

        def report() -> None:
            progress = self._progress()
            recorder.progressed(progress)
            if show is not None:
                show(progress)

        try:
            for item in built.values():
                name = item.output.name
                if checkpoint.last_planned(name) is None:
                    remember_start(checkpoint.folder, name, item.starts, item.table)
                keep_clusters(checkpoint, name, item.streams)
                self._begin(item, once)
            self._watch(checkpoint, report, built, once)
        finally:
            self._stop_queries()
            checkpoint.save_topic_ids(self._saved_ids)
        report()
        asyncio.run(self._show_positions(list(built.values())))

    def stop(self) -> None:
        """Stops a running pipeline cleanly. May be called from a signal handler."""
        self._stopping.set()

    def _progress(self) -> list[OutputProgress]:
        """Each output's batches since the last call, at least the last one."""
        found: list[OutputProgress] = []
        for name, query in self._queries.items():
            reports: list[Any] = list(query.recentProgress)
            follower = self._followers.setdefault(name, Follower(name))
            found += follower.follow(reports, query.isActive)
        return found

    def _start(self, item: Built, once: bool) -> StreamingQuery:
        assert self._checkpoint is not None
        output = item.output
        rows = item.rows.observe(OBSERVED, F.count(F.lit(1)).alias("rows"))
        writer = rows.writeStream.queryName(f"{self._pipeline.name}.{output.name}")
        writer = writer.outputMode(output.output_mode)
        writer = writer.option("checkpointLocation", self._checkpoint.spark_location(output.name))
        if once:
            writer = writer.trigger(availableNow=True)
        else:
            writer = writer.trigger(processingTime=item.trigger)
        try:
            return start_query(item, writer, self._checkpoint)
        except (PySparkException, Py4JJavaError) as error:
            raise DeclarationError(output.place, short_text(error)) from error

    def _begin(self, item: Built, once: bool) -> None:
        """Starts a query and waits until its source responds.

        One by one: each needs a new Python process, for which Spark allows ten seconds.
        """
        query = self._queries[item.output.name] = self._start(item, once)
        while query.isActive and query.status["message"] == "Initializing sources":
            if self._stopping.wait(0.05):
                return
        assert self._checkpoint is not None
        self._checkpoint.save_topic_ids(self._saved_ids)

    def _watch(
        self,
        checkpoint: Checkpoint,
        report: Callable[[], None],
        built: Mapping[str, Built],
        once: bool,
    ) -> None:
        restarts = dict.fromkeys(built, 0)
        while not self._stopping.wait(POLL_SECONDS):
            checkpoint.check_held()
            checkpoint.save_topic_ids(self._saved_ids)
            for name, item in built.items():
                if self._is_starved(name) and restarts[name] < MOST_RESTARTS:
                    restarts[name] += 1
                    self._begin(item, once)
            self._raise_failures()
            report()
            if not any(query.isActive for query in self._queries.values()):
                self._raise_failures()
                return

    def _is_starved(self, name: str) -> bool:
        """Whether a query ended only because the machine was too busy to start its process."""
        error = self._queries[name].exception()
        return error is not None and _STARVED in str(error)

    def _raise_failures(self) -> None:
        for name, query in self._queries.items():
            error = query.exception()
            if error is not None:
                raise PipelineError(f"{name} has failed: {short_text(error)}{self._advice(error)}")

    def _advice(self, error: PySparkException) -> str:
        text = str(error)
        if not any(sign in text for sign in _OTHER_CODE):
            return worker_advice(text)
        return (
            "\nThe checkpoint belongs to a different version of this pipeline: undo the change, or "
            f"start over with `floodmark pipeline reset {self._pipeline.name}`"
        )

    def _stop_queries(self) -> None:
        """Waits for the current batch, so that as little as possible is repeated."""
        waited = threading.Event()
        patience = STOP_PATIENCE_SECONDS
        for query in self._queries.values():
            while query.isActive and query.status["isTriggerActive"] and patience > 0:
                waited.wait(0.1)
                patience -= 0.1
            query.stop()

    async def _show_positions(self, built: Sequence[Built]) -> None:
        """Spark reports the last batch to a source only when the next one starts. Show it now."""
        for item in built:
            query = self._queries[item.output.name]
            await show_positions(item.streams, from_document(_end_offsets(query)))


def _end_offsets(query: StreamingQuery) -> dict[str, dict[str, int]]:
    progress: Any = query.lastProgress
    offsets: dict[str, dict[str, int]] = {}
    for source in progress["sources"] if progress else ():
        for topic, partitions in offsets_in(source, "endOffset").items():
            offsets.setdefault(topic, {}).update(partitions)
    return offsets
