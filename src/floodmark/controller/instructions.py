"""The controller's requests to brokers after a change: UpdateMetadata, LeaderAndIsr, StopReplica.

PURE: turns the delta of two images into requests per broker, in the order in which Kafka 3.9's
controller sends them, because Kafka brokers may be among the receivers:

1. live brokers, before anything names a leader that the broker may not know yet;
2. deletions, before a new topic takes the name;
3. UpdateMetadata with new topics: unlike Kafka's brokers, ours learn a topic completely or not at
   all, and LeaderAndIsr names only the partitions a broker holds;
4. LeaderAndIsr to the replicas of changed partitions;
5. UpdateMetadata with those partitions, to all brokers;
6. StopReplica to brokers that lost a replica and, without deletion, to followers that are shutting
   down.

A newly registered broker gets everything.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

from floodmark.metadata.image import BrokerInfo, Delta, MetadataImage, PartitionImage, TopicImage
from floodmark.wire.messages.leader_and_isr import (
    LeaderAndIsrLiveLeader,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from floodmark.wire.messages.stop_replica import (
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaTopicState,
)
from floodmark.wire.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)

Instruction: TypeAlias = UpdateMetadataRequest | LeaderAndIsrRequest | StopReplicaRequest

LEADER_DURING_DELETE = -2
EPOCH_DURING_DELETE = -2
SECURITY_PROTOCOLS = {"PLAINTEXT": 0, "SSL": 1, "SASL_PLAINTEXT": 2, "SASL_SSL": 3}


@dataclass(frozen=True, slots=True)
class _Told:
    """A partition that brokers must learn of."""

    topic: TopicImage
    index: int
    partition: PartitionImage
    old: PartitionImage | None = None
    is_new: bool = False

    def is_lost_by(self, broker_id: int) -> bool:
        return self._had(broker_id) and broker_id not in self.partition.replicas

    def is_left_by(self, broker_id: int) -> bool:
        """Whether a follower has left the in-sync replicas but stays a replica."""
        return (
            self.old is not None
            and self.old.leader != broker_id
            and broker_id in self.old.isr
            and broker_id not in self.partition.isr
            and broker_id in self.partition.replicas
        )

    def is_new_for(self, broker_id: int) -> bool:
        return self.is_new or (self.old is not None and not self._had(broker_id))

    @property
    def is_news_for_replicas(self) -> bool:
        """Whether more has changed than which replicas are lost."""
        lost = self.partition.lost_replicas
        return self.old is None or self.old._replace(lost_replicas=lost) != self.partition

    def _had(self, broker_id: int) -> bool:
        return self.old is not None and broker_id in self.old.replicas


def instructions(
    old: MetadataImage,
    new: MetadataImage,
    delta: Delta,
    listener: str,
    but_not: int | None = None,
) -> dict[int, list[Instruction]]:
    """Instructions by live broker. `but_not` is the controller's own broker, which needs none.

    `listener` is the inter-broker listener."""
    arrived = {
        broker
        for broker in delta.changed_brokers
        if new.is_live(broker) and not _is_same_process(old, new, broker)
    }
    told: dict[int, list[Instruction]] = {}
    others = [broker for broker in new.live_brokers() if broker.id != but_not]
    if not others:
        return {}
    changed = list(_changed(delta))
    for broker in others:
        writer = _Writer(new, broker, listener)
        if broker.id in arrived:
            told[broker.id] = writer.everything()
        else:
            told[broker.id] = writer.news(changed, delta)
    return {broker: requests for broker, requests in told.items() if requests}


def farewells(
    old: MetadataImage, new: MetadataImage, delta: Delta, listener: str
) -> dict[int, list[Instruction]]:
    """For brokers whose session has just ended. They may be alive and cut off only from the store,
    while clients and followers still reach them, so they should know who leads now. It carries
    their old broker epoch, so a process that has registered since ignores it."""
    if not delta.changed_brokers:
        return {}
    changed = list(_changed(delta))
    told: dict[int, list[Instruction]] = {}
    for broker_id in delta.changed_brokers:
        broker, known = new.brokers.get(broker_id), old.brokers.get(broker_id)
        if broker is None or not broker.is_fenced or not broker.endpoints:
            continue
        writer = _Writer(new, broker, listener)
        if known is None:
            told[broker_id] = writer.everything()
        elif not known.is_fenced and not known.is_shutting_down:
            told[broker_id] = writer.news(changed, delta)
    return told


def greeting(image: MetadataImage, broker: BrokerInfo, listener: str) -> UpdateMetadataRequest:
    """Contains no news, only this broker epoch: acceptance shows which process is there."""
    return _Writer(image, broker, listener).update_metadata([])


def question(image: MetadataImage, broker_id: int, listener: str) -> list[Instruction]:
    """Everything a broker leads and follows. It knows that, but its response names lost
    replicas."""
    broker = image.brokers[broker_id]
    return _Writer(image, broker, listener).leaderships()


def _is_same_process(old: MetadataImage, new: MetadataImage, broker_id: int) -> bool:
    """A broker that was considered dead meanwhile has missed instructions."""
    known = old.brokers.get(broker_id)
    return (
        known is not None
        and not known.is_fenced
        and known.broker_epoch == new.brokers[broker_id].broker_epoch
    )


def _changed(delta: Delta) -> Iterable[_Told]:
    for topic in delta.created_topics:
        for index, partition in enumerate(topic.partitions):
            yield _Told(topic, index, partition, is_new=True)
    for change in delta.changed_partitions:
        is_new = change.old is None
        yield _Told(change.topic, change.partition, change.new, change.old, is_new)


class _Writer:
    """Builds the requests to one broker."""

    def __init__(self, image: MetadataImage, broker: BrokerInfo, listener: str) -> None:
        self._image = image
        self._broker = broker
        self._listener = listener

    def everything(self) -> list[Instruction]:
        told = self._all()
        return [self.update_metadata(told), *self._leader_and_isr(told)]

    def leaderships(self) -> list[Instruction]:
        return self._leader_and_isr(self._all())

    def _all(self) -> list[_Told]:
        return [
            _Told(topic, index, partition)
            for topic in self._image.topics.values()
            for index, partition in enumerate(topic.partitions)
        ]

    def news(self, changed: list[_Told], delta: Delta) -> list[Instruction]:
        requests: list[Instruction] = []
        if delta.changed_brokers:
            requests.append(self.update_metadata([]))
        requests += self._deletions(delta.deleted_topics)
        created = {topic.topic_id for topic in delta.created_topics}
        requests += self._news_of([one for one in changed if one.topic.topic_id in created])
        requests += self._leader_and_isr([one for one in changed if one.is_news_for_replicas])
        requests += self._news_of([one for one in changed if one.topic.topic_id not in created])
        requests += self._stop_replica(
            (one.topic.name, one.index, one.partition.leader_epoch)
            for one in changed
            if one.is_lost_by(self._broker.id)
        )
        if self._broker.is_shutting_down:
            left = (one for one in changed if one.is_left_by(self._broker.id))
            stops = ((one.topic.name, one.index, one.partition.leader_epoch) for one in left)
            requests += self._stop_replica(stops, delete=False)
        return requests

    def _deletions(self, deleted: Iterable[TopicImage]) -> list[Instruction]:
        gone = [
            _Told(topic, index, partition._replace(leader=LEADER_DURING_DELETE))
            for topic in deleted
            for index, partition in enumerate(topic.partitions)
        ]
        if not gone:
            return []
        ours = [one for one in gone if self._broker.id in one.partition.replicas]
        stops = ((one.topic.name, one.index, EPOCH_DURING_DELETE) for one in ours)
        return [self.update_metadata(gone), *self._stop_replica(stops)]

    def _news_of(self, told: list[_Told]) -> list[Instruction]:
        return [self.update_metadata(told)] if told else []

    def update_metadata(self, told: list[_Told]) -> UpdateMetadataRequest:
        topics: dict[str, UpdateMetadataTopicState] = {}
        for one in told:
            state = topics.setdefault(
                one.topic.name,
                UpdateMetadataTopicState(topic_name=one.topic.name, topic_id=one.topic.topic_id),
            )
            state.partition_states.append(self._partition_metadata(one))
        return UpdateMetadataRequest(
            controller_id=self._image.controller_id,
            controller_epoch=self._image.controller_epoch,
            broker_epoch=self._broker.broker_epoch,
            topic_states=list(topics.values()),
            live_brokers=[_live(broker) for broker in self._image.live_brokers()],
        )

    def _partition_metadata(self, one: _Told) -> UpdateMetadataPartitionState:
        partition = one.partition
        return UpdateMetadataPartitionState(
            partition_index=one.index,
            controller_epoch=self._image.controller_epoch,
            leader=partition.leader,
            leader_epoch=partition.leader_epoch,
            isr=list(partition.isr),
            zk_version=partition.partition_epoch,
            replicas=list(partition.replicas),
            offline_replicas=[
                r for r in partition.replicas if not self._image.has_replica(partition, r)
            ],
        )

    def _leader_and_isr(self, told: list[_Told]) -> list[Instruction]:
        """Empty if none of the partitions has a replica on this broker."""
        topics: dict[str, LeaderAndIsrTopicState] = {}
        leaders: set[int] = set()
        for one in told:
            if self._broker.id in one.partition.replicas:
                leaders.add(one.partition.leader)
                state = topics.setdefault(
                    one.topic.name,
                    LeaderAndIsrTopicState(topic_name=one.topic.name, topic_id=one.topic.topic_id),
                )
                state.partition_states.append(self._leadership(one))
        if not topics:
            return []
        return [
            LeaderAndIsrRequest(
                controller_id=self._image.controller_id,
                controller_epoch=self._image.controller_epoch,
                broker_epoch=self._broker.broker_epoch,
                topic_states=list(topics.values()),
                live_leaders=list(self._live_leaders(leaders)),
            )
        ]

    def _leadership(self, one: _Told) -> LeaderAndIsrPartitionState:
        partition = one.partition
        return LeaderAndIsrPartitionState(
            partition_index=one.index,
            controller_epoch=self._image.controller_epoch,
            leader=partition.leader,
            leader_epoch=partition.leader_epoch,
            isr=list(partition.isr),
            partition_epoch=partition.partition_epoch,
            replicas=list(partition.replicas),
            adding_replicas=list(partition.adding_replicas),
            removing_replicas=list(partition.removing_replicas),
            is_new=one.is_new_for(self._broker.id),
        )

    def _live_leaders(self, leaders: set[int]) -> Iterable[LeaderAndIsrLiveLeader]:
        for leader in sorted(leaders):
            broker = self._image.brokers.get(leader)
            endpoint = None if broker is None else broker.endpoints.get(self._listener)
            if endpoint is not None:
                yield LeaderAndIsrLiveLeader(
                    broker_id=leader, host_name=endpoint.host, port=endpoint.port
                )

    def _stop_replica(
        self, stops: Iterable[tuple[str, int, int]], *, delete: bool = True
    ) -> list[Instruction]:
        """Topic, partition and leader epoch of each replica to delete or stop."""
        topics: dict[str, StopReplicaTopicState] = {}
        for topic, index, leader_epoch in stops:
            state = topics.setdefault(topic, StopReplicaTopicState(topic_name=topic))
            state.partition_states.append(
                StopReplicaPartitionState(
                    partition_index=index, leader_epoch=leader_epoch, delete_partition=delete
                )
            )
        if not topics:
            return []
        return [
            StopReplicaRequest(
                controller_id=self._image.controller_id,
                controller_epoch=self._image.controller_epoch,
                broker_epoch=self._broker.broker_epoch,
                topic_states=list(topics.values()),
            )
        ]


def _live(broker: BrokerInfo) -> UpdateMetadataBroker:
    return UpdateMetadataBroker(
        id=broker.id,
        endpoints=[
            UpdateMetadataEndpoint(
                port=endpoint.port,
                host=endpoint.host,
                listener=endpoint.listener,
                security_protocol=SECURITY_PROTOCOLS[endpoint.security_protocol],
            )
            for endpoint in broker.endpoints.values()
        ],
        rack=broker.rack,
    )
