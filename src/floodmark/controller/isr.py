"""Decision: AlterPartition, by which a leader changes its partition's in-sync replicas. PURE.

Follows KIP-497 and KIP-903. A proposal based on outdated state (another leader epoch or partition
epoch), or with a replica that has restarted since, is refused, never merged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from floodmark.controller.decision import Decision, View
from floodmark.controller.eligible_replicas import with_isr
from floodmark.controller.partition_states import min_in_sync_replicas, store_partitions
from floodmark.controller.reassignment import completed
from floodmark.metadata.image import MetadataImage, PartitionImage, TopicImage
from floodmark.vocabulary import NO_BROKER_EPOCH, TopicPartition
from floodmark.wire.errors import ErrorCode


@dataclass(frozen=True, slots=True)
class IsrMember:
    """A replica as the leader knows it, with its epoch, to notice a restart."""

    broker_id: int
    broker_epoch: int = NO_BROKER_EPOCH


@dataclass(frozen=True, slots=True)
class IsrProposal:
    topic_id: UUID
    partition: int
    leader_epoch: int
    partition_epoch: int
    new_isr: Sequence[IsrMember]


@dataclass(frozen=True, slots=True)
class IsrAnswer:
    """Without an error, `state` is the partition after the change."""

    topic_id: UUID
    partition: int
    error_code: ErrorCode = ErrorCode.NONE
    state: PartitionImage | None = None


@dataclass(frozen=True, slots=True)
class AlterPartitionAnswer:
    error_code: ErrorCode
    partitions: list[IsrAnswer]


def alter_partitions(
    view: View, broker_id: int, broker_epoch: int, proposals: Sequence[IsrProposal]
) -> Decision[AlterPartitionAnswer]:
    image = view.image
    sender = image.brokers.get(broker_id)
    if sender is None or sender.broker_epoch != broker_epoch:
        return Decision(AlterPartitionAnswer(ErrorCode.STALE_BROKER_EPOCH, []))
    answers: list[IsrAnswer] = []
    changed: dict[TopicPartition, PartitionImage] = {}
    for proposal in proposals:
        outcome = _decide(view, broker_id, proposal)
        if isinstance(outcome, ErrorCode):
            answers.append(IsrAnswer(proposal.topic_id, proposal.partition, outcome))
            continue
        topic, state = outcome
        known = topic.partitions[proposal.partition]
        # A completed reassignment starts a new leader epoch, perhaps with another leader. The
        # requester learns of it from LeaderAndIsr, like all brokers.
        is_fenced = state.leader_epoch != known.leader_epoch
        error_code = ErrorCode.NEW_LEADER_ELECTED if is_fenced else ErrorCode.NONE
        answers.append(IsrAnswer(proposal.topic_id, proposal.partition, error_code, state))
        if state is not known:
            changed[topic.name, proposal.partition] = state
    operations, change = store_partitions(image, changed)
    return Decision(AlterPartitionAnswer(ErrorCode.NONE, answers), operations, change)


def _decide(
    view: View, broker_id: int, proposal: IsrProposal
) -> tuple[TopicImage, PartitionImage] | ErrorCode:
    image = view.image
    topic = image.topics_by_id.get(proposal.topic_id)
    if topic is None:
        return ErrorCode.UNKNOWN_TOPIC_ID
    if not 0 <= proposal.partition < len(topic.partitions):
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    current = topic.partitions[proposal.partition]
    error = _check_epochs(current, broker_id, proposal)
    if error is not ErrorCode.NONE:
        return error
    new_isr = tuple(member.broker_id for member in proposal.new_isr)
    if set(new_isr) == set(current.isr):
        # Also if an earlier copy of the proposal was stored and its response was lost.
        return topic, current
    if _is_outdated(current, proposal):
        return ErrorCode.INVALID_UPDATE_VERSION
    error = _check_members(image, current, proposal)
    if error is not ErrorCode.NONE:
        return error
    state = with_isr(current, new_isr, min_in_sync_replicas(view, topic.name))
    done = completed(view, topic.name, state)
    if done is not state:
        return topic, done
    return topic, state._replace(partition_epoch=current.partition_epoch + 1)


def _check_epochs(current: PartitionImage, broker_id: int, proposal: IsrProposal) -> ErrorCode:
    if (
        proposal.leader_epoch > current.leader_epoch
        or proposal.partition_epoch > current.partition_epoch
    ):
        # The leader knows more than we do, so another broker must be the controller.
        return ErrorCode.NOT_CONTROLLER
    if proposal.leader_epoch < current.leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if broker_id != current.leader:
        return ErrorCode.INVALID_REQUEST
    return ErrorCode.NONE


def _is_outdated(current: PartitionImage, proposal: IsrProposal) -> bool:
    return proposal.partition_epoch < current.partition_epoch


def _check_members(
    image: MetadataImage, current: PartitionImage, proposal: IsrProposal
) -> ErrorCode:
    ids = [member.broker_id for member in proposal.new_isr]
    if current.leader not in ids or len(set(ids)) != len(ids):
        return ErrorCode.INVALID_REQUEST
    if not set(ids) <= set(current.replicas):
        return ErrorCode.INVALID_REQUEST
    for member in proposal.new_isr:
        broker = image.brokers.get(member.broker_id)
        if broker is not None and member.broker_epoch > broker.broker_epoch:
            # The leader knows a registration that we have yet to process. This is not a final
            # answer: another copy of the proposal could be accepted later, after the leader has
            # dropped it and continued without the replica.
            return ErrorCode.NOT_CONTROLLER
        if broker is None or not image.may_lead(current, member.broker_id):
            return ErrorCode.INELIGIBLE_REPLICA
        if member.broker_epoch not in (NO_BROKER_EPOCH, broker.broker_epoch):
            return ErrorCode.INELIGIBLE_REPLICA
    return ErrorCode.NONE
