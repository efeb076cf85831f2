"""The first writes of a controller: the nodes that must be there, its own epoch, its broker.

PURE but for one question to the log folders, which only a new store has to ask. One multi, so that
a start is one sync of the disk, and a crash leaves either nothing or all.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from uuid import UUID

from floodmark.controller.features import INITIAL_FEATURES
from floodmark.controller.topics import topic_operations
from floodmark.metadata import paths
from floodmark.metadata.adoption import FoundFolder, adopted_topics
from floodmark.metadata.image import BrokerInfo, MetadataImage
from floodmark.metadata.loader import Identity
from floodmark.metadata.store import Create, Operation, SetData


@dataclass(frozen=True, slots=True)
class Bootstrap:
    operations: list[Operation]
    controller_epoch: int
    controller_epoch_version: int
    adopted: list[str]


def bootstrap(
    identity: Identity,
    existing_paths: Collection[str],
    broker: BrokerInfo,
    found: FoundFolder,
    new_id: Callable[[], UUID],
    now_ms: int,
) -> Bootstrap:
    """Everything that a broker writes before it serves; afterwards the image is loaded again."""
    operations: list[Operation] = [
        Create(path) for path in paths.PERSISTENT_PATHS if path not in existing_paths
    ]
    epoch = identity.controller_epoch + 1
    epoch_version = 0
    if identity.controller_epoch_version is None:
        operations.append(Create(paths.CONTROLLER_EPOCH, str(epoch).encode()))
    else:
        operations.append(
            SetData(paths.CONTROLLER_EPOCH, str(epoch).encode(), identity.controller_epoch_version)
        )
        epoch_version = identity.controller_epoch_version + 1
    operations.append(
        Create(paths.CONTROLLER, paths.encode_controller(broker.id, now_ms), ephemeral=True)
    )
    operations.append(
        Create(paths.broker_path(broker.id), paths.encode_broker(broker, now_ms), ephemeral=True)
    )
    adopted: list[str] = []
    if identity.cluster_id is None:
        cluster_id = found.cluster_id or paths.encode_id(new_id())
        operations.append(Create(paths.CLUSTER_ID, paths.encode_cluster_id(cluster_id)))
        operations.append(Create(paths.FEATURE, paths.encode_features(INITIAL_FEATURES)))
        in_reign = MetadataImage(controller_id=broker.id, controller_epoch=epoch)
        given_out = found.look_closer()
        for topic in adopted_topics(found.topics, given_out.leader_epochs, broker.id, new_id):
            settings = found.topics[topic.name].settings
            operations += topic_operations(in_reign, topic, settings)
            adopted.append(topic.name)
        if given_out.producer_id >= 0:
            # What Kafka handed out is used up: a new producer must not be taken for an old one.
            used = paths.encode_producer_id_block(broker.id, 0, given_out.producer_id)
            operations.append(SetData(paths.PRODUCER_ID_BLOCK, used))
    return Bootstrap(operations, epoch, epoch_version, adopted)
