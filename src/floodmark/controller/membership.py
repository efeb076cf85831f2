"""Decisions: a broker came, a broker went. PURE."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from floodmark.controller import known_brokers
from floodmark.controller.decision import Decision, View, then
from floodmark.controller.elections import changed_under_leader, led_by, next_leader
from floodmark.controller.eligible_replicas import without
from floodmark.controller.partition_states import min_in_sync_replicas, store_partitions
from floodmark.metadata.image import BrokerInfo, ImageChange, PartitionImage
from floodmark.vocabulary import NO_LEADER, TopicPartition


def brokers_changed(view: View, registered: Mapping[int, BrokerInfo]) -> Decision[None]:
    """Deals with all that has happened to brokers since the controller last looked, and remembers
    whom it knows now."""
    changes = known_brokers.compare(view.image.brokers, registered)
    together = Decision(None)
    for broker in changes.restarted:
        view, together = then(view, together, broker_registered(view, broker))
    for broker_id in changes.gone:
        view, together = then(view, together, broker_gone(view, broker_id))
    for broker in changes.new:
        view, together = then(view, together, broker_registered(view, broker))
    view, together = then(view, together, lead_leaderless(view))
    return _remembered(view, together) if any(changes) else together


def lead_leaderless(view: View) -> Decision[None]:
    """Partitions without a leader that could have one are led again.

    A large decision is stored piece by piece, so a controller may lose the store after it has taken
    the leaderships of a broker and before it has noted that the broker is gone. When that broker
    turns out to be there after all, nothing else says that it is to lead again.
    """
    changed: dict[TopicPartition, PartitionImage] = {}
    for name, topic in view.image.topics.items():
        for index, partition in enumerate(topic.partitions):
            is_stored = partition.partition_epoch >= 0
            if partition.leader == NO_LEADER and is_stored:
                elected = next_leader(view, name, partition)
                if elected is not None:
                    changed[name, index] = elected
    operations, change = store_partitions(view.image, changed)
    return Decision(None, operations, change)


def broker_died(view: View, broker_id: int, broker_epoch: int) -> Decision[None]:
    """The process of this registration is gone for certain; its session may end later.

    Nothing to do if it was noticed already, or another process has taken its place."""
    known = view.image.brokers.get(broker_id)
    if known is None or known.is_fenced or known.broker_epoch != broker_epoch:
        return Decision(None)
    after, decision = then(view, Decision(None), broker_gone(view, broker_id))
    return _remembered(after, decision)


def broker_lives(view: View, broker: BrokerInfo) -> Decision[None]:
    """A broker that was taken for dead has answered, under the same registration."""
    known = view.image.brokers.get(broker.id)
    if known is None or not known.is_fenced or known.broker_epoch != broker.broker_epoch:
        return Decision(None)
    after, decision = then(view, Decision(None), broker_registered(view, broker))
    return _remembered(after, decision)


def _remembered(view: View, decision: Decision[None]) -> Decision[None]:
    """The decision, and whom the controller knows after it (`view`)."""
    remembered = known_brokers.remember(view.image.brokers)
    return replace(decision, operations=[*decision.operations, remembered])


def broker_registered(view: View, broker: BrokerInfo) -> Decision[BrokerInfo]:
    """Partitions without a live leader are led again, and so are those that this broker led.

    A broker that has restarted may have lost what it had not synced. One that comes back before it
    was missed therefore leaves the in-sync replicas first, as if it had been (KIP-380, KIP-903),
    and where it leads again its reign begins anew, with a higher leader epoch, so that nobody takes
    its log for the one of before (KIP-101, KIP-320). Unless all its stops since it was last known
    were clean, it is not eligible to lead either, if somebody else is (KIP-966).
    """
    known = view.image.brokers.get(broker.id)
    is_back = known is not None and known.broker_epoch == broker.broker_epoch and known.is_fenced
    image = view.image.apply(ImageChange(brokers={broker.id: broker}))
    now = replace(view, image=image)
    changed: dict[TopicPartition, PartitionImage] = {}
    for name, topic in image.topics.items():
        for index, partition in enumerate(topic.partitions):
            if broker.id not in partition.replicas:
                continue
            trusted = _as_trusted(now, name, partition, known, broker)
            if partition.leader == broker.id or not image.is_live(partition.leader):
                after = _led_again(now, name, partition, trusted)
            else:
                after = partition if trusted == partition else changed_under_leader(image, trusted)
            if after is partition and is_back:
                # While it was taken for dead, leaders were refused it as a member (KIP-903) and
                # have moved on. Nothing they proposed before may be accepted now.
                after = changed_under_leader(image, partition)
            if after is not partition:
                changed[name, index] = after
    operations, change = store_partitions(image, changed)
    return Decision(broker, operations, ImageChange(change.topics, brokers={broker.id: broker}))


def broker_gone(view: View, broker_id: int) -> Decision[None]:
    """The broker leaves the in-sync replicas, unless it is the last, and leads nothing any more.

    The last in-sync replica stays in the list, alone: whoever leads next must have its records. The
    broker stays known as a fenced one, with its epoch: when it comes back, that tells whether it
    has restarted unnoticed in between.
    """
    known = view.image.brokers.get(broker_id)
    fenced = None if known is None else replace(known, is_fenced=True, is_shutting_down=False)
    image = view.image.apply(ImageChange(brokers={broker_id: fenced}))
    now = replace(view, image=image)
    changed: dict[TopicPartition, PartitionImage] = {}
    for name, topic in image.topics.items():
        for index, partition in enumerate(topic.partitions):
            if broker_id not in partition.isr and partition.leader != broker_id:
                continue
            after = _without(now, name, partition, broker_id)
            if after is not partition:
                changed[name, index] = after
    operations, change = store_partitions(image, changed)
    return Decision(None, operations, ImageChange(change.topics, brokers={broker_id: fenced}))


def _as_trusted(
    view: View,
    topic: str,
    partition: PartitionImage,
    known: BrokerInfo | None,
    broker: BrokerInfo,
) -> PartitionImage:
    """The partition as far as a broker that registers may be trusted."""
    was_missed = known is None or known.is_fenced
    if known is not None and known.broker_epoch == broker.broker_epoch:
        # The same process: it has kept what it had, also if it was taken for dead.
        return partition
    keeps_all = known is not None and 0 <= broker.unbroken_since <= known.broker_epoch
    if was_missed and keeps_all:
        return partition
    if broker.id in partition.isr:
        minimum = min_in_sync_replicas(view, topic)
        return without(partition, broker.id, minimum, keeps_all=keeps_all)
    if keeps_all:
        return partition
    eligible = tuple(r for r in partition.eligible_leader_replicas if r != broker.id)
    return partition._replace(eligible_leader_replicas=eligible)


def _led_again(
    view: View, topic: str, partition: PartitionImage, trusted: PartitionImage
) -> PartitionImage:
    elected = next_leader(view, topic, trusted)
    if elected is not None:
        return elected
    if partition.leader != NO_LEADER:
        return led_by(trusted, NO_LEADER, trusted.isr)
    return partition if trusted == partition else changed_under_leader(view.image, trusted)


def _without(view: View, topic: str, partition: PartitionImage, broker_id: int) -> PartitionImage:
    # It is gone, and whether it keeps all it will say when it comes back.
    minimum = min_in_sync_replicas(view, topic)
    smaller = without(partition, broker_id, minimum, keeps_all=True)
    if partition.leader != broker_id:
        return changed_under_leader(view.image, smaller)
    elected = next_leader(view, topic, smaller)
    return elected if elected is not None else led_by(smaller, NO_LEADER, smaller.isr)
