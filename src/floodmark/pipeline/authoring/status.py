"""The status of pipelines, from their checkpoints, run records and source topics.

Called by `floodmark pipeline status` and `reset`.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from floodmark.client.cluster.cluster import Cluster, CoordinatorType
from floodmark.client.cluster.connection import Connection
from floodmark.client.cluster.coordinator_requests import ask_coordinator
from floodmark.client.errors import KafkaError, raise_for_code
from floodmark.clock import Clock, SystemClock
from floodmark.pipeline.authoring.checkpoints import Checkpoint
from floodmark.pipeline.authoring.lag import PATIENCE, Lag, lag_over
from floodmark.pipeline.authoring.run_records import RUNNING, RunRecord, read_run, time_text
from floodmark.pipeline.authoring.source_clusters import servers_of
from floodmark.pipeline.datasource.batch_marks import Repeatable
from floodmark.pipeline.datasource.offsets import from_document
from floodmark.pipeline.spark.atomic_files import modified_ms
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse


@dataclass(frozen=True)
class OutputStatus:
    pipeline: str
    output: str
    # From the pipeline's last run; None if that run kept no such record.
    state: str | None
    since: str | None
    error: str | None
    batch: int | None
    finished_at: str | None
    rows_in_per_second: float | None
    rows_out_per_second: float | None
    lag: int | None
    lag_seconds: float | None
    group: str

    def as_document(self) -> dict[str, Any]:
        return asdict(self)


async def status_of(checkpoint: Checkpoint, clock: Clock | None = None) -> list[OutputStatus]:
    """One line per output of the last run. The lag is None if no broker responds."""
    record = read_run(checkpoint.folder)
    run = None if record is None else record.now((clock or SystemClock()).now_ms())
    cluster = Cluster(checkpoint.bootstrap_server, PATIENCE)
    is_reachable = True
    rows = []
    try:
        for output in _outputs(checkpoint, run):
            last = checkpoint.last_batch(output)
            lag = None
            if last is not None and is_reachable:
                try:
                    lag = await lag_over(cluster, checkpoint, output, from_document(last[1]))
                except KafkaError:
                    # Wait only once: the checkpoint's contents are worth showing without it.
                    is_reachable = False
            rows.append(_row(checkpoint, run, output, last and last[0], lag))
    finally:
        await cluster.close()
    return rows


def _outputs(checkpoint: Checkpoint, run: RunRecord | None) -> list[str]:
    """Those of the last run. An output that was removed since keeps its folder, but nothing else
    would ever move it on.
    """
    if run is None or not run.outputs:
        return checkpoint.outputs()
    return sorted(run.outputs)


def _row(
    checkpoint: Checkpoint,
    run: RunRecord | None,
    output: str,
    batch: int | None,
    lag: Lag | None,
) -> OutputStatus:
    rates = None
    if run is not None and run.state == RUNNING:
        rates = run.outputs.get(output)
    return OutputStatus(
        pipeline=checkpoint.pipeline,
        output=output,
        state=None if run is None else run.state,
        since=None if run is None else time_text(run.since_ms),
        error=None if run is None else run.error,
        batch=batch,
        finished_at=None if batch is None else _written_at(checkpoint, output, batch),
        rows_in_per_second=None if rates is None else rates.rows_in_per_second,
        rows_out_per_second=None if rates is None else rates.rows_out_per_second,
        lag=None if lag is None else lag.records,
        lag_seconds=None if lag is None else lag.seconds,
        group=f"{checkpoint.pipeline}.{output}",
    )


def _written_at(checkpoint: Checkpoint, output: str, batch: int) -> str:
    return time_text(modified_ms(checkpoint.folder / output / "commits" / str(batch)))


async def delete_groups(checkpoint: Checkpoint, only: str | None = None) -> None:
    """Deletes positions and marks of all outputs, or only of one. Ignores missing ones."""
    async with Cluster(checkpoint.bootstrap_server, PATIENCE) as cluster:
        for output in checkpoint.outputs() if only is None else [only]:
            marks = Repeatable(checkpoint.query_name(output), 0, 0)
            group = f"{checkpoint.pipeline}.{output}"
            for name in (group, marks.plan_group):
                await _delete_group(cluster, name)
            for servers in {servers for servers, _ in servers_of(checkpoint, output)}:
                async with Cluster(servers, PATIENCE) as other:
                    await _delete_group(other, group)
            task = 0
            while await _delete_group(cluster, marks.task_group(task)):
                task += 1


async def _delete_group(cluster: Cluster, group: str) -> bool:
    async def ask(connection: Connection) -> bool:
        response: DeleteGroupsResponse = await connection.request(
            DeleteGroupsRequest(groups_names=[group])
        )
        (result,) = response.results
        if result.error_code == ErrorCode.GROUP_ID_NOT_FOUND:
            return False
        raise_for_code(result.error_code)
        return True

    return await ask_coordinator(cluster, CoordinatorType.GROUP, group, ask)
