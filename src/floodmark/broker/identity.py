"""This broker's identity: node id and cluster id, from the settings and the log folders.

A folder's `meta.properties` names its owner. Folders of Apache Kafka, in ZooKeeper or KRaft mode,
are adopted unchanged. A folder of another broker or cluster is refused, because serving it would
mix two histories.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple
from uuid import UUID, uuid4

from floodmark.broker.internal_topics import internal_settings
from floodmark.config.broker_config import BrokerConfig
from floodmark.config.errors import ConfigError
from floodmark.metadata.adoption import FoundFolder, FoundNumbers, FoundTopic
from floodmark.storage.checkpoints import MetaProperties, encode_uuid
from floodmark.storage.files import Files
from floodmark.storage.log_dir import FoundPartition
from floodmark.storage.log_manager import LogManager
from floodmark.storage.recovery.segment_files import log_paths

DEFAULT_NODE_ID = 1
ZOOKEEPER_FORM = 0


class IdentityConflict(ConfigError):
    """The settings and log folders, or two log folders, name different brokers or clusters."""


class Identity(NamedTuple):
    node_id: int
    cluster_id: str


def establish_identity(
    config: BrokerConfig, logs: LogManager, stored_cluster_id: Callable[[], str | None]
) -> Identity:
    """Determines our identity and writes it into folders that lack it.

    Skips empty folders next to non-empty ones: new_folders.py handles these. `stored_cluster_id` is
    the metadata file's cluster id, used if no folder has one.
    """
    found = {path: log_dir.meta for path, log_dir in logs.dirs.items() if log_dir.meta is not None}
    node_ids = {m.node_id for m in found.values() if m.node_id is not None and m.node_id >= 0}
    cluster_ids = {m.cluster_id for m in found.values() if m.cluster_id}
    if config.node_id_is_set:
        node_ids.add(config.node_id)
    folders = ", ".join(map(str, found)) or "none"
    if len(node_ids) > 1:
        raise IdentityConflict(
            f"conflicting node ids {' and '.join(map(str, sorted(node_ids)))} in the settings and "
            f"meta.properties of {folders}. Set node.id to the folder's id, or use another folder."
        )
    if len(cluster_ids) > 1:
        raise IdentityConflict(
            f"the log folders {folders} belong to different clusters ({', '.join(cluster_ids)}). "
            "Use folders of one cluster only."
        )
    identity = Identity(
        node_ids.pop() if node_ids else DEFAULT_NODE_ID,
        cluster_ids.pop() if cluster_ids else stored_cluster_id() or encode_uuid(uuid4()),
    )
    if not found:
        logs.write_meta_properties({path: own_properties(identity) for path in logs.dirs})
    logs.write_meta_properties(
        {
            path: replace(meta, cluster_id=identity.cluster_id, node_id=identity.node_id)
            for path, meta in found.items()
            if None in (meta.cluster_id, meta.node_id)
        }
    )
    return identity


def own_properties(identity: Identity) -> MetaProperties:
    return MetaProperties(ZOOKEEPER_FORM, identity.cluster_id, identity.node_id)


def look_at_folders(
    files: Files, found: Sequence[FoundPartition], identity: Identity, config: BrokerConfig
) -> FoundFolder:
    """What the log folders hold, for a metadata store that may not know it yet."""
    # Skip names like `backup-20260101`, which would have twenty million partitions.
    logs = [one for one in found if one.topic_id is not None or _holds_a_log(files, one.folder)]
    indexes: dict[str, set[int]] = {}
    topic_ids: dict[str, UUID] = {}
    for item in logs:
        indexes.setdefault(item.topic, set()).add(item.partition)
        if item.topic_id is not None:
            topic_ids[item.topic] = item.topic_id
    return FoundFolder(
        identity.cluster_id,
        {
            topic: FoundTopic(partitions, topic_ids.get(topic), internal_settings(topic, config))
            for topic, partitions in indexes.items()
        },
        lambda: _look_closer(files, logs),
    )


def _holds_a_log(files: Files, folder: Path) -> bool:
    try:
        return bool(log_paths(files, folder))
    except OSError:
        # Opening it will report why it is unreadable.
        return True


def _look_closer(files: Files, found: Sequence[FoundPartition]) -> FoundNumbers:
    """Imported late: only the first start on a folder needs it."""
    from floodmark.broker.adopted_epochs import last_leader_epochs
    from floodmark.broker.adopted_producers import last_producer_id

    return FoundNumbers(last_leader_epochs(files, found), last_producer_id(files, found))
