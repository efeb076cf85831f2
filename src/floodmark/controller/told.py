"""Builds the image from the controller's requests: the inverse of `instructions.py`. PURE.

Brokers other than the controller maintain their image with this. LeaderAndIsr and UpdateMetadata
say the same about a partition, the former to its replicas and the latter to all brokers. So both
change the image the same way: the higher epoch wins, and older state is ignored.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple
from uuid import UUID

from floodmark.controller.instructions import LEADER_DURING_DELETE, SECURITY_PROTOCOLS
from floodmark.metadata.image import (
    BrokerInfo,
    Endpoint,
    ImageChange,
    MetadataImage,
    PartitionImage,
    TopicImage,
)
from floodmark.metadata.paths import NO_TOPIC_ID
from floodmark.vocabulary import NO_BROKER_EPOCH, NO_LEADER
from floodmark.wire.messages.leader_and_isr import LeaderAndIsrRequest
from floodmark.wire.messages.stop_replica import StopReplicaRequest
from floodmark.wire.messages.update_metadata import UpdateMetadataBroker, UpdateMetadataRequest

_PROTOCOL_NAMES = {number: name for name, number in SECURITY_PROTOCOLS.items()}
_UNKNOWN = PartitionImage(NO_LEADER, -1, -1, (), ())


class _News(NamedTuple):
    topic: str
    topic_id: UUID
    partition_index: int
    partition: PartitionImage


def after_update_metadata(image: MetadataImage, request: UpdateMetadataRequest) -> MetadataImage:
    """Applies live brokers and changes."""
    news, deleted = [], set()
    live = {broker.id: _broker(image, broker) for broker in request.live_brokers}
    for state in request.topic_states:
        for one in state.partition_states:
            if one.leader == LEADER_DURING_DELETE:
                if _is_known_as(image, state.topic_name, state.topic_id):
                    deleted.add(state.topic_name)
                continue
            known = _known(image, state.topic_name, one.partition_index)
            partition = PartitionImage(
                one.leader,
                one.leader_epoch,
                one.zk_version,
                tuple(one.replicas),
                tuple(one.isr),
                # Not part of this message; LeaderAndIsr informs the replicas.
                known.adding_replicas,
                known.removing_replicas,
                lost_replicas=tuple(r for r in one.offline_replicas if r in live),
            )
            news.append(_News(state.topic_name, state.topic_id, one.partition_index, partition))
    change = ImageChange(
        topics={**_topics(image, news), **dict.fromkeys(deleted)},
        brokers={**{gone: None for gone in image.brokers if gone not in live}, **live},
    )
    return _under(image, request.controller_id, request.controller_epoch).apply(change)


def after_leader_and_isr(image: MetadataImage, request: LeaderAndIsrRequest) -> MetadataImage:
    """Only for known topics. It names only the partitions this broker holds, and clients would give
    up partitions that a topic seems to lack. UpdateMetadata names all of them."""
    news = [
        _News(
            state.topic_name,
            state.topic_id,
            one.partition_index,
            PartitionImage(
                one.leader,
                one.leader_epoch,
                one.partition_epoch,
                tuple(one.replicas),
                tuple(one.isr),
                tuple(one.adding_replicas),
                tuple(one.removing_replicas),
                # Not part of this message; UpdateMetadata tells everybody.
                lost_replicas=_known(image, state.topic_name, one.partition_index).lost_replicas,
            ),
        )
        for state in request.topic_states
        if state.topic_id in image.topics_by_id
        for one in state.partition_states
    ]
    change = ImageChange(topics=_topics(image, news))
    return _under(image, request.controller_id, request.controller_epoch).apply(change)


def after_stop_replica(
    image: MetadataImage, request: StopReplicaRequest, broker_id: int
) -> MetadataImage:
    """Removes partitions this broker must delete but the image still assigns to it.

    UpdateMetadata has usually done so before, and nothing changes. A repeated request may arrive
    late, so a partition that has moved back in a later leader epoch stays. Negative epochs mean a
    deleted topic, or are unknown.
    """
    changed: dict[str, dict[int, PartitionImage]] = {}
    for state in request.topic_states:
        for one in state.partition_states:
            known = _known(image, state.topic_name, one.partition_index)
            is_outdated = 0 <= one.leader_epoch < known.leader_epoch
            if one.delete_partition and broker_id in known.replicas and not is_outdated:
                without = tuple(r for r in known.replicas if r != broker_id)
                changed.setdefault(state.topic_name, {})[one.partition_index] = known._replace(
                    replicas=without
                )
    topics = {name: image.topics[name].with_partitions(some) for name, some in changed.items()}
    return image.apply(ImageChange(topics=topics)) if topics else image


def stopped_by(request: StopReplicaRequest) -> list[tuple[str, int, int]]:
    """Topic, partition and leader epoch of replicas to stop without deletion."""
    return [
        (state.topic_name, one.partition_index, one.leader_epoch)
        for state in request.topic_states
        for one in state.partition_states
        if not one.delete_partition
    ]


def _under(image: MetadataImage, controller_id: int, controller_epoch: int) -> MetadataImage:
    return replace(image, controller_id=controller_id, controller_epoch=controller_epoch)


def _known(image: MetadataImage, topic: str, index: int) -> PartitionImage:
    return image.partition(topic, index) or _UNKNOWN


def _is_known_as(image: MetadataImage, topic: str, topic_id: UUID) -> bool:
    """Not if another topic has the name by now. Topics that predate ids have none."""
    known = image.topics.get(topic)
    return known is not None and topic_id in (known.topic_id, NO_TOPIC_ID)


def _topics(image: MetadataImage, news: Iterable[_News]) -> dict[str, TopicImage | None]:
    by_topic: dict[tuple[str, UUID], dict[int, PartitionImage]] = {}
    for one in news:
        by_topic.setdefault((one.topic, one.topic_id), {})[one.partition_index] = one.partition
    return {
        name: _merged(image.topics.get(name), name, topic_id, partitions)
        for (name, topic_id), partitions in by_topic.items()
    }


def _merged(
    known: TopicImage | None, name: str, topic_id: UUID, news: dict[int, PartitionImage]
) -> TopicImage:
    """A topic with another id replaces the known one. Partitions may come in any order."""
    old = known.partitions if known is not None and known.topic_id == topic_id else ()
    count = max(len(old), max(news) + 1)
    return TopicImage(
        name,
        topic_id,
        tuple(
            _newer(old[index] if index < len(old) else _UNKNOWN, news.get(index, _UNKNOWN))
            for index in range(count)
        ),
    )


def _newer(old: PartitionImage, new: PartitionImage) -> PartitionImage:
    if (new.leader_epoch, new.partition_epoch) < (old.leader_epoch, old.partition_epoch):
        return old
    return new


def _broker(image: MetadataImage, told: UpdateMetadataBroker) -> BrokerInfo:
    """The message carries no broker epochs, so known ones stay."""
    known = image.brokers.get(told.id)
    return BrokerInfo(
        told.id,
        NO_BROKER_EPOCH if known is None else known.broker_epoch,
        {
            endpoint.listener: Endpoint(
                endpoint.listener,
                endpoint.host,
                endpoint.port,
                _PROTOCOL_NAMES[endpoint.security_protocol],
            )
            for endpoint in told.endpoints
        },
        told.rack,
        supported_features={} if known is None else known.supported_features,
    )
