"""Decisions: a broker joined, a broker left. PURE."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from floodmark.controller import known_brokers
from floodmark.controller.decision import Decision, View, then
from floodmark.controller.elections import changed_under_leader, led_by, next_leader
from floodmark.controller.eligible_replicas import without
from floodmark.controller.lost_replicas import forgotten
from floodmark.controller.partition_states import min_in_sync_replicas, store_partitions
from floodmark.metadata.image import BrokerInfo, ImageChange, PartitionImage
from floodmark.vocabulary import NO_LEADER, TopicPartition


def brokers_changed(view: View, registered: Mapping[int, BrokerInfo]) -> Decision[None]:
    """Processes all broker changes since the controller last looked, and records known brokers."""
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
    """Elects leaders for leaderless partitions that can have one.

    A large decision is stored in parts, so a controller may lose the store after removing a
    broker's leadership but before recording that the broker is gone. If the broker turns out to be
    alive, nothing else would make it lead again.
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
    """The process of this registration is certainly gone; its session may end later.

    Does nothing if it was already noticed, or another process has taken its place."""
    known = view.image.brokers.get(broker_id)
    if known is None or known.is_fenced or known.broker_epoch != broker_epoch:
        return Decision(None)
    after, decision = then(view, Decision(None), broker_gone(view, broker_id))
    return _remembered(after, decision)


def broker_lives(view: View, broker: BrokerInfo) -> Decision[None]:
    """A broker that was considered dead has responded, under the same registration."""
    known = view.image.brokers.get(broker.id)
    if known is None or not known.is_fenced or known.broker_epoch != broker.broker_epoch:
        return Decision(None)
    after, decision = then(view, Decision(None), broker_registered(view, broker))
    return _remembered(after, decision)


def _remembered(view: View, decision: Decision[None]) -> Decision[None]:
    """The decision, plus a record of the brokers the controller knows after it (`view`)."""
    remembered = known_brokers.remember(view.image.brokers)
    return replace(decision, operations=[*decision.operations, remembered])


def broker_registered(view: View, broker: BrokerInfo) -> Decision[BrokerInfo]:
    """Elects leaders for partitions without a live one, and for those this broker led.

    A restarted broker may have lost unsynced records. One that returns before it was missed
    therefore leaves the in-sync replicas first, as if it had been (KIP-380, KIP-903). Where it
    leads again, it gets a higher leader epoch, so that nobody mistakes its log for the earlier one
    (KIP-101, KIP-320). Unless all its stops since it was last known were clean, it is not eligible
    to lead either, if somebody else is (KIP-966).
    """
    known = view.image.brokers.get(broker.id)
    is_back = known is not None and known.broker_epoch == broker.broker_epoch and known.is_fenced
    # Its log folders may work again. Its next response will say what is still lost.
    topics = forgotten(view.image, broker.id)
    image = view.image.apply(ImageChange(topics, brokers={broker.id: broker}))
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
                # While it was considered dead, leaders could not add it (KIP-903) and have moved
                # on. Nothing they proposed before may be accepted now.
                after = changed_under_leader(image, partition)
            if after is not partition:
                changed[name, index] = after
    operations, change = store_partitions(image, changed)
    topics.update(change.topics)
    return Decision(broker, operations, ImageChange(topics, brokers={broker.id: broker}))


def broker_gone(view: View, broker_id: int) -> Decision[None]:
    """The broker leaves the in-sync replicas, unless it is the last, and leads nothing.

    The last in-sync replica stays in the list, alone: the next leader must have its records. The
    broker stays known as fenced, with its epoch. That shows later whether it restarted unnoticed in
    between.
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
    """The partition, as far as a registering broker may be trusted."""
    was_missed = known is None or known.is_fenced
    if known is not None and known.broker_epoch == broker.broker_epoch:
        # The same process: it still has its records, even if it was considered dead.
        return partition
    keeps_all = known_brokers.keeps_all(known, broker)
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
    # It is gone. When it returns, it will say whether it kept everything.
    minimum = min_in_sync_replicas(view, topic)
    smaller = without(partition, broker_id, minimum, keeps_all=True)
    if partition.leader != broker_id:
        return changed_under_leader(view.image, smaller)
    elected = next_leader(view, topic, smaller)
    return elected if elected is not None else led_by(smaller, NO_LEADER, smaller.isr)
