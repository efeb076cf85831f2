"""Decisions: a broker came, a broker went. PURE."""

from __future__ import annotations

from dataclasses import replace

from floodmark.controller.decision import Decision, View
from floodmark.controller.elections import led_by, next_leader
from floodmark.controller.partition_states import PartitionKey, store_partitions
from floodmark.metadata.image import (
    NO_LEADER,
    BrokerInfo,
    ImageChange,
    PartitionImage,
)


def broker_registered(view: View, broker: BrokerInfo) -> Decision[BrokerInfo]:
    """Partitions without a live leader are led again, and so are those that this broker led.

    A broker that has restarted may have lost what it had not synced. One that comes back before it
    was missed therefore leaves the in-sync replicas first, as if it had been (KIP-380, KIP-903),
    and where it leads again its reign begins anew, with a higher leader epoch, so that nobody takes
    its log for the one of before (KIP-101, KIP-320).
    """
    known = view.image.brokers.get(broker.id)
    was_missed = known is None or known.broker_epoch == broker.broker_epoch
    image = view.image.apply(ImageChange(brokers={broker.id: broker}))
    now = replace(view, image=image)
    changed: dict[PartitionKey, PartitionImage] = {}
    for name, topic in image.topics.items():
        for index, partition in enumerate(topic.partitions):
            if broker.id not in partition.replicas:
                continue
            trusted = partition if was_missed else _distrusted(partition, broker.id)
            if partition.leader == broker.id or not image.is_live(partition.leader):
                elected = next_leader(now, name, trusted)
                if elected is not None:
                    changed[name, index] = elected
            elif trusted is not partition:
                changed[name, index] = _changed(trusted)
    operations, change = store_partitions(image, changed)
    return Decision(broker, operations, ImageChange(change.topics, brokers={broker.id: broker}))


def broker_gone(view: View, broker_id: int) -> Decision[None]:
    """The broker leaves the in-sync replicas, unless it is the last, and leads nothing any more.

    The last in-sync replica stays in the list, alone: whoever leads next must have its records.
    """
    image = view.image.apply(ImageChange(brokers={broker_id: None}))
    now = replace(view, image=image)
    changed: dict[PartitionKey, PartitionImage] = {}
    for name, topic in image.topics.items():
        for index, partition in enumerate(topic.partitions):
            if broker_id not in partition.isr and partition.leader != broker_id:
                continue
            changed[name, index] = _without(now, name, partition, broker_id)
    operations, change = store_partitions(image, changed)
    return Decision(None, operations, ImageChange(change.topics, brokers={broker_id: None}))


def _without(view: View, topic: str, partition: PartitionImage, broker_id: int) -> PartitionImage:
    smaller = _distrusted(partition, broker_id)
    if partition.leader != broker_id:
        # Fencing by the leader epoch is for a change of reign; the leader itself stays.
        return _changed(smaller)
    elected = next_leader(view, topic, smaller)
    return elected if elected is not None else led_by(smaller, NO_LEADER, smaller.isr)


def _distrusted(partition: PartitionImage, broker_id: int) -> PartitionImage:
    """Without this broker among the in-sync replicas, unless it is the last of them."""
    remaining = tuple(replica for replica in partition.isr if replica != broker_id)
    if not remaining or remaining == partition.isr:
        return partition
    return partition._replace(isr=remaining)


def _changed(partition: PartitionImage) -> PartitionImage:
    return partition._replace(partition_epoch=partition.partition_epoch + 1)
