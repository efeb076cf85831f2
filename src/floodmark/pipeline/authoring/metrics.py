"""Prometheus metrics of running pipelines.

Called by `floodmark pipeline run --metrics-port`: the runner's progress goes through `observer`. A
thread of its own asks the brokers for the age of the oldest unread record.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Gauge, start_http_server

from floodmark.client.cluster.cluster import Cluster
from floodmark.client.errors import KafkaError
from floodmark.pipeline.authoring.lag import PATIENCE, lag_over
from floodmark.pipeline.authoring.progress import OutputProgress
from floodmark.pipeline.datasource.offsets import from_document
from floodmark.pipeline.errors import PipelineError

if TYPE_CHECKING:
    from collections.abc import Callable

    from floodmark.pipeline.authoring.checkpoints import Checkpoint

LAG_SECONDS_EVERY_S = 15.0
_LABELS = ("pipeline", "output")


class PipelineMetrics:
    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._outputs: dict[str, Collection[str]] = {}
        self._up = Gauge(
            "floodmark_pipeline_up",
            "1 while the pipeline runs, 0 after it has stopped or failed.",
            ["pipeline"],
            registry=self.registry,
        )
        self._rows_in = self._counter("input_rows", "Rows read, including those read again.")
        self._rows_out = self._counter("output_rows", "Rows given to the sink.")
        self._late = self._counter("late_rows", "Rows dropped behind the watermark.")
        self._batches = self._counter("batches", "Batches that had work to do.")
        self._batch = self._gauge("batch", "Number of the last batch.")
        self._batch_seconds = self._gauge("batch_duration_seconds", "Duration of the last batch.")
        self._lag = self._gauge("lag_records", "Records of the sources that were not read yet.")
        self._lag_seconds = self._gauge("lag_seconds", "Age of the oldest record not read yet.")
        self._state_rows = self._gauge("state_rows", "Rows in the state stores.")

    def _counter(self, name: str, text: str) -> Counter:
        return Counter(f"floodmark_pipeline_{name}", text, _LABELS, registry=self.registry)

    def _gauge(self, name: str, text: str) -> Gauge:
        return Gauge(f"floodmark_pipeline_{name}", text, _LABELS, registry=self.registry)

    def observer(self, pipeline: str) -> Callable[[list[OutputProgress]], None]:
        """Takes a pipeline's progress, which repeats the last batch while there is no news."""
        seen: dict[str, OutputProgress] = {}
        self._outputs[pipeline] = seen.keys()

        def observe(outputs: list[OutputProgress]) -> None:
            for item in outputs:
                self._observe(pipeline, item, seen.get(item.name))
                seen[item.name] = item

        return observe

    def _observe(self, pipeline: str, item: OutputProgress, before: OutputProgress | None) -> None:
        before = before or OutputProgress(item.name, True)
        labels = (pipeline, item.name)
        self._rows_in.labels(*labels).inc(item.rows_in_so_far - before.rows_in_so_far)
        self._rows_out.labels(*labels).inc(item.rows_out_so_far - before.rows_out_so_far)
        self._late.labels(*labels).inc(item.late_rows_so_far - before.late_rows_so_far)
        self._batches.labels(*labels).inc(item.batches_so_far - before.batches_so_far)
        self._lag.labels(*labels).set(item.lag)
        self._state_rows.labels(*labels).set(item.state_rows)
        self._batch_seconds.labels(*labels).set(item.batch_ms / 1000)
        if item.batch is not None:
            self._batch.labels(*labels).set(item.batch)

    @contextmanager
    def running(self, checkpoint: Checkpoint) -> Iterator[None]:
        """Follows one pipeline for a block."""
        ending = threading.Event()
        watch = threading.Thread(
            target=self._watch_lag, args=(checkpoint, ending), name="pipeline-lag", daemon=True
        )
        self._up.labels(checkpoint.pipeline).set(1)
        watch.start()
        try:
            yield
        finally:
            self._up.labels(checkpoint.pipeline).set(0)
            ending.set()
            watch.join()

    def _watch_lag(self, checkpoint: Checkpoint, ending: threading.Event) -> None:
        while not ending.wait(LAG_SECONDS_EVERY_S):
            try:
                asyncio.run(self._measure_lag(checkpoint))
            except (KafkaError, PipelineError, OSError):
                # No broker, or no file system, responds: the last value stays.
                continue

    async def _measure_lag(self, checkpoint: Checkpoint) -> None:
        async with Cluster(checkpoint.bootstrap_server, PATIENCE) as cluster:
            for output in sorted(self._outputs.get(checkpoint.pipeline, ())):
                last = checkpoint.last_batch(output)
                if last is None:
                    continue
                lag = await lag_over(cluster, checkpoint, output, from_document(last[1]))
                if lag is not None and lag.seconds is not None:
                    self._lag_seconds.labels(checkpoint.pipeline, output).set(lag.seconds)


@contextmanager
def served(metrics: PipelineMetrics, host: str, port: int) -> Iterator[int]:
    """Serves /metrics for a block. Yields the port, which is a free one if 0 was asked for."""
    try:
        server, thread = start_http_server(port, host, registry=metrics.registry)
    except OSError as error:
        raise PipelineError(
            f"metrics cannot be served on {host}:{port} ({error.strerror}): choose another "
            "--metrics-port, or stop the process that uses it"
        ) from error
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
