"""Loads the image from the store: at the start, and when a broker becomes the controller."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import NamedTuple

from floodmark.metadata import acl_nodes, paths, token_nodes
from floodmark.metadata.image import (
    BrokerInfo,
    ConfigResource,
    Features,
    MetadataImage,
    PartitionImage,
    TopicImage,
)
from floodmark.metadata.paths import PartitionState, TopicAssignment
from floodmark.metadata.store import Node, Store, StoreUnavailable
from floodmark.security.acls import Acls
from floodmark.security.delegation_tokens import DelegationToken
from floodmark.vocabulary import NO_LEADER, TopicPartition


class Identity(NamedTuple):
    """The store's owner. Without a cluster id the store is new.

    `controller_epoch_version` is None if there has never been a controller.
    """

    cluster_id: str | None
    controller_epoch: int
    controller_epoch_version: int | None


@contextmanager
def decoding() -> Iterator[None]:
    """Raises StoreUnavailable if a node is malformed."""
    try:
        yield
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise StoreUnavailable("/", f"a node is malformed: {error!r}") from error


async def load_identity(store: Store) -> Identity:
    cluster_id = await store.get(paths.CLUSTER_ID)
    epoch = await store.get(paths.CONTROLLER_EPOCH)
    with decoding():
        return Identity(
            paths.decode_cluster_id(cluster_id.data) if cluster_id else None,
            int(epoch.data) if epoch else 0,
            epoch.version if epoch else None,
        )


class Stored(NamedTuple):
    """`void_paths` are lists of eligible leaders older than a state of another controller.

    The next controller deletes them.
    """

    image: MetadataImage
    void_paths: tuple[str, ...]


async def load_image(store: Store) -> MetadataImage:
    """The whole image."""
    return (await load_stored(store)).image


async def load_stored(store: Store) -> Stored:
    # Settings come last: those of a topic are written before it, so no topic is without them.
    topic_nodes = await store.read_tree(paths.TOPICS)
    settings = await load_settings(store)
    brokers = await load_brokers(store)
    with decoding():
        topics = decode_topics(topic_nodes)
        image = replace(
            settings,
            brokers=brokers,
            topics=topics,
            topics_by_id={topic.topic_id: topic for topic in topics.values()},
        )
        return Stored(image, tuple(_void_paths(topic_nodes, topics)))


async def load_brokers(store: Store) -> dict[int, BrokerInfo]:
    """The registered brokers, by id."""
    nodes = await store.read_tree(paths.BROKER_IDS)
    with decoding():
        return decode_brokers(nodes)


async def load_settings(store: Store) -> MetadataImage:
    """The image without brokers and topics, which the controller announces."""
    state, config_nodes = await load_state(store), await store.read_tree(paths.CONFIG)
    acls, tokens = await load_acls(store), await load_tokens(store)
    with decoding():
        return replace(state, configs=decode_configs(config_nodes), acls=acls, tokens=tokens)


async def load_acls(store: Store) -> Acls:
    nodes: dict[str, Node] = {}
    for root in acl_nodes.ACL_ROOTS:
        nodes |= await store.read_tree(root)
    with decoding():
        return acl_nodes.decode_acls(nodes)


async def load_state(store: Store) -> MetadataImage:
    """The contents of single nodes: the cluster's id, its controller, features, producer ids."""
    identity = await load_identity(store)
    controller = await store.get(paths.CONTROLLER)
    feature = await store.get(paths.FEATURE)
    producer_ids = await store.get(paths.PRODUCER_ID_BLOCK)
    with decoding():
        return MetadataImage(
            cluster_id=identity.cluster_id or "",
            controller_id=paths.decode_controller(controller.data) if controller else -1,
            controller_epoch=identity.controller_epoch,
            features=decode_features(feature),
            next_producer_id=(
                paths.decode_next_producer_id(producer_ids.data) if producer_ids else 0
            ),
        )


async def load_tokens(store: Store) -> dict[str, DelegationToken]:
    nodes = await store.read_tree(token_nodes.TOKENS)
    with decoding():
        return token_nodes.decode_tokens(nodes)


def decode_topics(nodes: Mapping[str, Node]) -> dict[str, TopicImage]:
    """Decodes the nodes at and below /brokers/topics."""
    assignments: dict[str, TopicAssignment] = {}
    states: dict[TopicPartition, tuple[PartitionState, int]] = {}
    eligible: dict[TopicPartition, bytes] = {}
    for path, node in nodes.items():
        parts = path.split("/")
        if len(parts) == 4:
            assignments[parts[3]] = paths.decode_topic(node.data)
        elif len(parts) == 7 and parts[6] == "state":
            states[parts[3], int(parts[5])] = paths.decode_state(node.data), node.version
        elif len(parts) == 7 and parts[6] == paths.ELIGIBLE:
            eligible[parts[3], int(parts[5])] = node.data
    topics = {name: _topic(name, assignment, states) for name, assignment in assignments.items()}
    for (name, index), data in eligible.items():
        if name not in topics or index >= len(topics[name].partitions):
            continue  # It is being deleted.
        partition = topics[name].partitions[index]
        replicas = paths.decode_eligible(data, partition.partition_epoch)
        partition = partition._replace(eligible_leader_replicas=replicas)
        topics[name] = topics[name].with_partitions({index: partition})
    return topics


def _void_paths(nodes: Mapping[str, Node], topics: Mapping[str, TopicImage]) -> Iterator[str]:
    for path in nodes:
        parts = path.split("/")
        if len(parts) == 7 and parts[6] == paths.ELIGIBLE and parts[3] in topics:
            partitions = dict(enumerate(topics[parts[3]].partitions))
            partition = partitions.get(int(parts[5]))
            if partition is not None and not partition.eligible_leader_replicas:
                yield path


def _topic(
    name: str,
    assignment: TopicAssignment,
    states: Mapping[TopicPartition, tuple[PartitionState, int]],
) -> TopicImage:
    partitions = []
    for index in sorted(assignment.replicas):
        replicas = assignment.replicas[index]
        # An unfinished topic creation leaves partitions without a state: no leader yet.
        state, version = states.get((name, index), (PartitionState(0, NO_LEADER, -1, ()), -1))
        partitions.append(
            PartitionImage(
                leader=state.leader,
                leader_epoch=state.leader_epoch,
                partition_epoch=version,
                replicas=replicas,
                isr=state.isr,
                adding_replicas=assignment.adding_replicas.get(index, ()),
                removing_replicas=assignment.removing_replicas.get(index, ()),
            )
        )
    return TopicImage(name, assignment.topic_id, tuple(partitions))


def decode_brokers(nodes: Mapping[str, Node]) -> dict[int, BrokerInfo]:
    brokers: dict[int, BrokerInfo] = {}
    for path, node in nodes.items():
        if path != paths.BROKER_IDS:
            broker_id = int(path.rpartition("/")[2])
            brokers[broker_id] = paths.decode_broker(broker_id, node.data, node.created_zxid)
    return brokers


def decode_configs(nodes: Mapping[str, Node]) -> dict[ConfigResource, Mapping[str, str]]:
    configs: dict[ConfigResource, Mapping[str, str]] = {}
    for path, node in nodes.items():
        resource = paths.config_resource(path)
        if resource is not None:
            configs[resource] = paths.decode_config(node.data)
    return configs


def decode_features(node: Node | None) -> Features:
    if node is None:
        return Features()
    return Features(paths.decode_features(node.data), node.version)
