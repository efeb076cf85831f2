"""How a simulated broker handles the partitions it leads."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from floodmark.controller.isr import IsrMember, IsrProposal
from floodmark.promise import Promise
from floodmark.records.control import ControlType, EndTransactionMarker, encode_marker
from floodmark.replication import leading
from floodmark.replication.fetch_reads import FetchLimits
from floodmark.replication.fetch_sessions import FetchTarget
from floodmark.replication.follower import FollowerAnswer
from floodmark.replication.outcomes import ACKS_ALL, AppendOutcome, Isolation, ReadOutcome
from floodmark.replication.partition import ProposedReplica
from floodmark.replication.replica import Replica
from floodmark.storage.producers.transaction_guards import Unguarded
from floodmark.testing.simulation.messages import (
    AlterPartition,
    AlterPartitionAnswer,
    ConsumerFetch,
    ConsumerFetchAnswer,
    MarkerAnswer,
    Produce,
    ProduceAnswer,
    ReplicaFetch,
    ReplicaFetchAnswer,
    ReplicaOffsets,
    ReplicaOffsetsAnswer,
    WriteMarker,
)
from floodmark.vocabulary import NO_BROKER_EPOCH, TopicPartition
from floodmark.wire.errors import ErrorCode

if TYPE_CHECKING:
    from floodmark.testing.simulation.broker import SimulatedBroker

PRODUCE_TIMEOUT_MS = 400
FETCH_WAIT_MS = 60
_TRANSACTION_VERSION = 2


class Acknowledged(NamedTuple):
    """A batch acknowledged in this step."""

    key: TopicPartition
    leader_epoch: int
    acks: int
    base_offset: int
    batch: bytes


class Leading:
    def __init__(self, broker: SimulatedBroker) -> None:
        self._broker = broker
        self._clock = broker.clock
        self._replicas = broker.replicas

    # Appends

    def append(self, source: int, produce: Produce) -> None:
        key = produce.key
        batch = memoryview(bytearray(produce.batch))
        # No verification here: each producer schedules its own transactions.
        guard = Unguarded.NOT_CHECKED if produce.is_transactional else None
        outcome = self._replicas.append(key, batch, produce.acks, guard)

        def answer(final: AppendOutcome) -> None:
            replica = self._replicas.find(key)
            if final.error_code is ErrorCode.NONE and replica is not None:
                leader_epoch = replica.core.leadership.leader_epoch
                self._broker.acknowledged.append(
                    Acknowledged(key, leader_epoch, produce.acks, final.base_offset, produce.batch)
                )
            reply = ProduceAnswer(produce.request, key, final.error_code, final.base_offset)
            self._broker.send(source, reply)

        self._when_acknowledged(key, outcome, produce.acks, answer)

    def write_marker(self, source: int, request: WriteMarker) -> None:
        """Works like `broker.marker_log`."""
        key = request.key
        outcome = self._append_marker(request)

        def answer(final: AppendOutcome) -> None:
            reply = MarkerAnswer(key, request.producer_epoch, final.error_code)
            self._broker.send(source, reply)

        self._when_acknowledged(key, outcome, ACKS_ALL, answer)

    def _append_marker(self, request: WriteMarker) -> AppendOutcome:
        control_type = ControlType.COMMIT if request.is_commit else ControlType.ABORT
        batch = encode_marker(
            EndTransactionMarker(control_type, 0),
            producer_id=request.producer_id,
            producer_epoch=request.producer_epoch,
            timestamp_ms=self._clock.now_ms(),
        )
        return self._replicas.append_own(
            request.key, batch, transaction_version=_TRANSACTION_VERSION
        )

    def _when_acknowledged(
        self,
        key: TopicPartition,
        outcome: AppendOutcome,
        acks: int,
        answer: Callable[[AppendOutcome], None],
    ) -> None:
        promise = self._replicas.acknowledged({key: outcome}, acks, PRODUCE_TIMEOUT_MS)
        promise.then(lambda final: answer(final[key]), _raise)

    # Reads

    def serve_follower(self, source: int, request: ReplicaFetch) -> None:
        replica = self._replicas.find(request.key)
        if replica is None:
            return
        now_ms = self._clock.monotonic_ms()
        outcome = leading.read_for_follower(
            replica, source, request.broker_epoch, request.fetch, request.max_bytes, now_ms
        )
        self._replicas.changed(request.key)
        answer = FollowerAnswer(
            outcome.error_code,
            outcome.high_watermark,
            log_start_offset=outcome.log_start_offset,
        )
        if outcome.divergence is not None:
            epoch, end_offset = outcome.divergence
            answer = answer._replace(diverging_epoch=epoch, diverging_end_offset=end_offset)
        reply = ReplicaFetchAnswer(
            request.incarnation, request.key, request.fetch, answer, _bytes_of(outcome)
        )
        self._broker.send(source, reply)
        if outcome.error_code is ErrorCode.NONE and outcome.divergence is None:
            replica.core.propose_to_add(source, now_ms, self._broker.plan.lag_max_ms)
            self._send_proposal(replica)

    def tell_offsets(self, source: int, request: ReplicaOffsets) -> None:
        replica = self._replicas.find(request.key)
        if replica is None or not replica.core.is_leader:
            return
        if replica.core.fence(request.fetch.leader_epoch) is ErrorCode.NONE:
            log = replica.log
            reply = ReplicaOffsetsAnswer(*request, log.log_start_offset, log.log_end_offset)
            self._broker.send(source, reply)

    def serve_consumer(self, source: int, request: ConsumerFetch) -> None:
        replica = self._replicas.find(request.key)
        if replica is None:
            return
        isolation = (
            Isolation.READ_COMMITTED if request.is_read_committed else Isolation.READ_UNCOMMITTED
        )
        if request.from_follower:
            outcome = leading.read(
                replica,
                request.fetch_offset,
                request.max_bytes,
                isolation,
                is_follower=False,
                min_one_batch=True,
                leader_only=False,
            )
            self._answer_consumer(source, request, outcome)
            return
        target = FetchTarget(*request.key, request.fetch_offset, request.max_bytes)
        limits = FetchLimits(1, request.max_bytes, FETCH_WAIT_MS, isolation)
        outcomes = self._replicas.fetch([(request.key, target)], limits)
        if isinstance(outcomes, Promise):
            outcomes.then(lambda read: self._answer_consumer(source, request, read[0]), _raise)
        else:
            self._answer_consumer(source, request, outcomes[0])

    def _answer_consumer(self, source: int, request: ConsumerFetch, outcome: ReadOutcome) -> None:
        replica = self._replicas.find(request.key)
        if replica is None:
            return
        reply = ConsumerFetchAnswer(
            request.key,
            request.fetch_offset,
            outcome.error_code,
            _bytes_of(outcome),
            tuple(outcome.aborted or ()),
            replica.log.log_start_offset,
            replica.log.log_end_offset,
        )
        self._broker.send(source, reply)

    def delete_records(self, key: TopicPartition, share: float) -> None:
        """Deletes records up to some committed offset."""
        replica = self._replicas.find(key)
        if replica is not None and replica.core.is_leader:
            start, end = replica.log.log_start_offset, replica.core.high_watermark
            if end > start:
                replica.log.advance_log_start(start + int((end - start) * share))
                self._replicas.changed(key)

    # In-sync replicas

    def review_isr(self) -> None:
        """Proposes to shrink the in-sync replicas, and repeats unanswered proposals."""
        for replica in self._replicas.replicas:
            if replica.core.is_leader:
                now_ms = self._clock.monotonic_ms()
                replica.core.propose_to_shrink(now_ms, self._broker.plan.lag_max_ms)
                self._send_proposal(replica)

    def _send_proposal(self, replica: Replica) -> None:
        proposed = replica.core.proposal_to_send()
        if proposed is None:
            return
        own_epoch = self._broker.fence.broker_epoch
        members = [
            IsrMember(member, own_epoch if member == self._broker.id else broker_epoch)
            for member, broker_epoch in proposed
        ]
        leadership = replica.core.leadership
        proposal = IsrProposal(
            replica.topic_id,
            replica.key[1],
            leadership.leader_epoch,
            leadership.partition_epoch,
            members,
        )
        request = AlterPartition(own_epoch, replica.key, proposal)
        self._broker.send(self._broker.known_controller, request)

    def isr_answered(self, answered: AlterPartitionAnswer) -> None:
        replica = self._replicas.find(answered.key)
        if replica is None:
            return
        leadership, proposal = replica.core.leadership, answered.proposal
        if (proposal.leader_epoch, proposal.partition_epoch) != (
            leadership.leader_epoch,
            leadership.partition_epoch,
        ):
            return
        if answered.error_code is not ErrorCode.NONE:
            replica.core.proposal_failed(self._as_proposed(proposal), answered.error_code)
        elif answered.answer is not None and answered.answer.state is not None:
            self._broker.apply(answered.key, answered.answer.state)

    def _as_proposed(self, proposal: IsrProposal) -> tuple[ProposedReplica, ...]:
        return tuple(
            ProposedReplica(
                member.broker_id,
                NO_BROKER_EPOCH if member.broker_id == self._broker.id else member.broker_epoch,
            )
            for member in proposal.new_isr
        )


def _bytes_of(outcome: ReadOutcome) -> bytes:
    return b"" if outcome.records is None else bytes(outcome.records.read())


def _raise(problem: Exception) -> None:
    raise problem
