"""Decision: ControlledShutdown, by which a broker hands over leadership before it stops. PURE.

The broker leaves the in-sync replicas of every partition that others also hold, and stays out until
it registers again. Partitions with one replica stay as they are: nobody could take them over.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from floodmark.controller import known_brokers
from floodmark.controller.decision import Decision, View
from floodmark.controller.elections import changed_under_leader, led_by
from floodmark.controller.eligible_replicas import without
from floodmark.controller.partition_states import min_in_sync_replicas, store_partitions
from floodmark.metadata.image import BrokerInfo, ImageChange, MetadataImage, PartitionImage
from floodmark.vocabulary import NO_BROKER_EPOCH, TopicPartition
from floodmark.wire.errors import ErrorCode


@dataclass(frozen=True, slots=True)
class ShutdownAnswer:
    """`remaining` holds partitions the broker still leads and that another may take soon."""

    error_code: ErrorCode
    remaining: tuple[TopicPartition, ...] = ()


def controlled_shutdown(
    view: View, broker_id: int, broker_epoch: int = NO_BROKER_EPOCH
) -> Decision[ShutdownAnswer]:
    """The broker repeats this until nothing remains. Partitions already moved stay moved."""
    known = view.image.brokers.get(broker_id)
    refusal = _why_not(known, broker_epoch)
    if known is None or refusal is not ErrorCode.NONE:
        return Decision(ShutdownAnswer(refusal))
    stopping = replace(known, is_shutting_down=True)
    brokers = {broker_id: stopping}
    now = replace(view, image=view.image.apply(ImageChange(brokers=brokers)))
    changed: dict[TopicPartition, PartitionImage] = {}
    remaining: list[TopicPartition] = []
    for name, topic in now.image.topics.items():
        for index, partition in enumerate(topic.partitions):
            after = _without(now, name, partition, broker_id)
            if after is not partition:
                changed[name, index] = after
            if after.leader == broker_id and _may_be_taken_soon(now.image, after, broker_id):
                remaining.append((name, index))
    operations, change = store_partitions(now.image, changed)
    if not known.is_shutting_down:
        operations.append(known_brokers.remember(now.image.brokers))
    answer = ShutdownAnswer(ErrorCode.NONE, tuple(remaining))
    return Decision(answer, operations, ImageChange(change.topics, brokers=brokers))


def _why_not(known: BrokerInfo | None, broker_epoch: int) -> ErrorCode:
    if known is None or known.is_fenced:
        return ErrorCode.BROKER_NOT_AVAILABLE
    if broker_epoch not in (NO_BROKER_EPOCH, known.broker_epoch):
        is_old = broker_epoch < known.broker_epoch
        # A later registration is one that this controller has yet to process.
        return ErrorCode.STALE_BROKER_EPOCH if is_old else ErrorCode.BROKER_NOT_AVAILABLE
    return ErrorCode.NONE


def _without(view: View, topic: str, partition: PartitionImage, broker_id: int) -> PartitionImage:
    if broker_id not in partition.isr or len(partition.replicas) == 1:
        return partition
    smaller = without(partition, broker_id, min_in_sync_replicas(view, topic), keeps_all=True)
    if partition.leader != broker_id:
        return partition if smaller == partition else changed_under_leader(view.image, smaller)
    for replica in smaller.replicas:
        if replica in smaller.isr and view.image.may_lead(smaller, replica):
            return led_by(smaller, replica, smaller.isr)
    return partition


def _may_be_taken_soon(image: MetadataImage, partition: PartitionImage, broker_id: int) -> bool:
    """A replica on a broker that is gone or also stopping is not worth waiting for."""
    return any(r != broker_id and image.may_lead(partition, r) for r in partition.replicas)
