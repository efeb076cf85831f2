"""The clusters of an output's sources, which may have brokers of their own.

The runner records them next to the output's checkpoint and shows positions there; `status.py` asks
them for the lag. A checkpoint of Spark has topics and offsets, but not where they are.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from floodmark.client.cluster.cluster import Cluster
from floodmark.client.consumer.group_offsets import GroupMetadata, commit_offsets
from floodmark.client.errors import KafkaError
from floodmark.pipeline.datasource.offsets import Positions, for_display
from floodmark.pipeline.datasource.options import ReadOptions, Subscription
from floodmark.pipeline.spark.atomic_files import write_whole

if TYPE_CHECKING:
    from floodmark.pipeline.authoring.checkpoints import Checkpoint

_FILE = "source-clusters.json"
# Positions are informational, so brokers that are away are not awaited for long.
_PATIENCE_MS = 5_000


def keep_clusters(checkpoint: Checkpoint, output: str, streams: Iterable[ReadOptions]) -> None:
    """Records the sources that are not on the pipeline's own cluster. Nothing secret is kept."""
    path = checkpoint.folder / output / _FILE
    elsewhere = [
        {
            "bootstrap_servers": options.bootstrap_servers,
            "topics": [*options.subscription.topics, *options.subscription.assigned],
            "pattern": options.subscription.pattern,
        }
        for options in streams
        if options.bootstrap_servers != checkpoint.bootstrap_server
    ]
    if elsewhere or path.exists():
        write_whole(path, json.dumps(elsewhere, indent=2) + "\n")


def servers_of(checkpoint: Checkpoint, output: str) -> list[tuple[str, Subscription]]:
    """The sources that are not on the pipeline's own cluster."""
    path = checkpoint.folder / output / _FILE
    known = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
    return [
        (
            item["bootstrap_servers"],
            Subscription(topics=tuple(item["topics"]), pattern=item["pattern"]),
        )
        for item in known
    ]


def by_servers(
    checkpoint: Checkpoint, output: str, positions: Positions
) -> dict[str, Positions] | None:
    """The positions of each cluster. None if two clusters have topics of the same name."""
    elsewhere = servers_of(checkpoint, output)
    shares: dict[str, Positions] = defaultdict(dict)
    for partition, position in positions.items():
        found = {servers for servers, topics in elsewhere if topics.covers(partition.topic)}
        if len(found) > 1:
            return None
        servers = found.pop() if found else checkpoint.bootstrap_server
        shares[servers][partition] = position
    return dict(shares)


async def show_positions(streams: Sequence[ReadOptions], positions: Positions) -> None:
    """Commits positions to the groups of their sources, each in its own cluster.

    Topics of the same name in two clusters are left out: Spark's report does not tell them apart.
    """
    for options in streams:
        own = {
            partition: position
            for partition, position in positions.items()
            if _servers(streams, partition.topic) == {options.bootstrap_servers}
            and options.subscription.covers(partition.topic)
        }
        if not own:
            continue
        client = replace(options.client, default_api_timeout_ms=_PATIENCE_MS)
        try:
            group = GroupMetadata(options.group_id)
            async with Cluster(options.bootstrap_servers, client) as cluster:
                await commit_offsets(cluster, group, for_display(own))
        except KafkaError:
            # Only the checkpoint counts.
            continue


def _servers(streams: Iterable[ReadOptions], topic: str) -> set[str]:
    return {s.bootstrap_servers for s in streams if s.subscription.covers(topic)}
