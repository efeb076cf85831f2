"""How far behind its sources an output is, in records and in seconds.

Called by `status.py`, and by `metrics.py` for a running pipeline. The seconds are the age of the
oldest record that was not read yet, by its own timestamp.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from floodmark.client.cluster.cluster import Cluster
from floodmark.client.cluster.view import TopicPartition
from floodmark.client.consumer.consumer import Consumer
from floodmark.client.errors import KafkaError
from floodmark.client.offsets import OffsetSpec, list_offsets
from floodmark.client.settings import ClientSettings, ConsumerSettings
from floodmark.clock import Clock, SystemClock
from floodmark.pipeline.authoring.checkpoints import Checkpoint
from floodmark.pipeline.authoring.source_clusters import by_servers
from floodmark.pipeline.datasource.offsets import Positions

# Short, because a status must respond even if brokers do not.
PATIENCE = ClientSettings(default_api_timeout_ms=5_000, allow_auto_create_topics=False)
_READING = ConsumerSettings(
    default_api_timeout_ms=5_000,
    allow_auto_create_topics=False,
    isolation_level="read_committed",
)
_POLL_MS = 1_000
_POLLS = 3


@dataclass(frozen=True)
class Lag:
    records: int
    # None if there are records but none could be read in time.
    seconds: float | None = 0.0

    def plus(self, other: Lag) -> Lag:
        known = [one for one in (self.seconds, other.seconds) if one is not None]
        return Lag(self.records + other.records, max(known) if len(known) == 2 else None)


async def lag_over(
    cluster: Cluster, checkpoint: Checkpoint, output: str, positions: Positions
) -> Lag | None:
    """The lag over all clusters that the output reads from. `cluster` is the pipeline's own.

    None if it is unknown, for example if two clusters have topics of the same name.
    """
    shares = by_servers(checkpoint, output, positions)
    if shares is None:
        return None
    total = Lag(0)
    for servers, share in shares.items():
        if servers == checkpoint.bootstrap_server:
            lag = await lag_of(cluster, share)
        else:
            async with Cluster(servers, PATIENCE) as other:
                lag = await lag_of(other, share)
        if lag is None:
            return None
        total = total.plus(lag)
    return total


async def lag_of(cluster: Cluster, positions: Positions, clock: Clock | None = None) -> Lag | None:
    """None if a partition does not exist any more."""
    wanted = dict.fromkeys(positions, int(OffsetSpec.LATEST))
    listed = await list_offsets(cluster, wanted, read_committed=True)
    behind: dict[TopicPartition, int] = {}
    records = 0
    for partition, position in positions.items():
        end = listed.get(partition)
        if end is None or isinstance(end, KafkaError):
            return None
        if end.offset > position:
            records += end.offset - position
            behind[partition] = position
    lag = Lag(records)
    return replace(lag, seconds=await _age(cluster, behind, clock)) if behind else lag


async def _age(cluster: Cluster, behind: Positions, clock: Clock | None) -> float | None:
    found = await _first_timestamps(cluster, behind)
    if not found:
        return None
    now_ms = (clock or SystemClock()).now_ms()
    return max(0.0, round((now_ms - min(found)) / 1000, 1))


async def _first_timestamps(cluster: Cluster, behind: Positions) -> list[int]:
    """The timestamp of the first unread record of each partition that gives one in time."""
    found: dict[TopicPartition, int] = {}
    async with Consumer(cluster, _READING) as consumer:
        await consumer.assign(behind)
        for partition, position in behind.items():
            consumer.seek(partition, position)
        for _ in range(_POLLS):
            if len(found) == len(behind):
                break
            for partition, records in (await consumer.poll(_POLL_MS)).items():
                found.setdefault(partition, records[0][1])
    return list(found.values())
