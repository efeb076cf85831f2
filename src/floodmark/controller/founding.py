"""Creates the nodes a cluster needs to work. A new cluster also gets its identity.

PURE except for one look at the log folders, which only a new store needs. A single multi, so that a
crash leaves all or nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from uuid import UUID

from floodmark.controller.features import INITIAL_FEATURES
from floodmark.controller.topics import topic_operations
from floodmark.metadata import paths
from floodmark.metadata.adoption import FoundFolder, adopted_topics
from floodmark.metadata.image import MetadataImage
from floodmark.metadata.loader import Identity
from floodmark.metadata.store import Create, Operation, SetData


@dataclass(frozen=True, slots=True)
class Founding:
    operations: list[Operation]
    adopted_topics: list[str]


def found_cluster(
    identity: Identity,
    existing_paths: Collection[str],
    broker_id: int,
    found: FoundFolder,
    new_id: Callable[[], UUID],
) -> Founding:
    """A new cluster adopts what the log folders of its first broker hold."""
    operations: list[Operation] = [
        Create(path) for path in paths.PERSISTENT_PATHS if path not in existing_paths
    ]
    if paths.FEATURE not in existing_paths:
        operations.append(Create(paths.FEATURE, paths.encode_features(INITIAL_FEATURES)))
    if identity.cluster_id is not None:
        return Founding(operations, [])
    cluster_id = found.cluster_id or paths.encode_id(new_id())
    operations.append(Create(paths.CLUSTER_ID, paths.encode_cluster_id(cluster_id)))
    first_reign = MetadataImage(
        controller_id=broker_id, controller_epoch=identity.controller_epoch + 1
    )
    given_out = found.look_closer()
    adopted: list[str] = []
    for topic in adopted_topics(found.topics, given_out.leader_epochs, broker_id, new_id):
        operations += topic_operations(first_reign, topic, found.topics[topic.name].settings)
        adopted.append(topic.name)
    if given_out.producer_id >= 0:
        # Kafka's producer ids are used up: a new producer must not be mistaken for an old one.
        used = paths.encode_producer_id_block(broker_id, 0, given_out.producer_id)
        operations.append(SetData(paths.PRODUCER_ID_BLOCK, used))
    return Founding(operations, adopted)
