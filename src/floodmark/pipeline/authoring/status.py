"""The status of pipelines, from their checkpoints and source topics.

Called by `floodmark pipeline status` and `reset`.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from floodmark.client.cluster.cluster import Cluster, CoordinatorType
from floodmark.client.cluster.connection import Connection
from floodmark.client.cluster.coordinator_requests import ask_coordinator
from floodmark.client.errors import KafkaError, raise_for_code
from floodmark.client.offsets import OffsetSpec, list_offsets
from floodmark.client.settings import ClientSettings
from floodmark.pipeline.authoring.checkpoints import Checkpoint
from floodmark.pipeline.datasource.batch_marks import Repeatable
from floodmark.pipeline.datasource.offsets import Positions, from_document
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse

# Short, because a status must respond even if brokers do not.
_PATIENCE = ClientSettings(default_api_timeout_ms=5_000, allow_auto_create_topics=False)


@dataclass(frozen=True)
class OutputStatus:
    pipeline: str
    output: str
    batch: int | None
    finished_at: str | None
    lag: int | None
    group: str

    def as_document(self) -> dict[str, Any]:
        return asdict(self)


async def status_of(checkpoint: Checkpoint) -> list[OutputStatus]:
    """One line per output. The lag is None if no broker responds."""
    cluster = Cluster(checkpoint.bootstrap_server, _PATIENCE)
    rows = []
    is_reachable = True
    try:
        for output in checkpoint.outputs():
            last = checkpoint.last_batch(output)
            group = f"{checkpoint.pipeline}.{output}"
            if last is None:
                rows.append(OutputStatus(checkpoint.pipeline, output, None, None, None, group))
                continue
            batch, offsets = last
            try:
                lag = await _lag(cluster, from_document(offsets)) if is_reachable else None
            except KafkaError:
                # Wait only once: the checkpoint's contents are worth showing without it.
                is_reachable, lag = False, None
            when = _written_at(checkpoint.folder / output / "commits" / str(batch))
            rows.append(OutputStatus(checkpoint.pipeline, output, batch, when, lag, group))
    finally:
        await cluster.close()
    return rows


async def _lag(cluster: Cluster, positions: Positions) -> int | None:
    wanted = dict.fromkeys(positions, int(OffsetSpec.LATEST))
    listed = await list_offsets(cluster, wanted, read_committed=True)
    lag = 0
    for partition, position in positions.items():
        end = listed.get(partition)
        if end is None or isinstance(end, KafkaError):
            return None
        lag += max(0, end.offset - position)
    return lag


def _written_at(path: Path) -> str:
    return datetime.fromtimestamp(path.stat().st_mtime, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


async def delete_groups(checkpoint: Checkpoint) -> None:
    """Deletes positions and marks of all outputs. Ignores missing ones."""
    async with Cluster(checkpoint.bootstrap_server, _PATIENCE) as cluster:
        for output in checkpoint.outputs():
            marks = Repeatable(checkpoint.query_name(output), 0, 0)
            names = [f"{checkpoint.pipeline}.{output}", marks.plan_group]
            for name in names:
                await _delete_group(cluster, name)
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
