"""A broker of a simulated cluster: the real cores and the real log on a disk in memory.

Used by `testing.simulator`. It has one partition and no shells: requests come as messages, answers
go into `outbox`, which a crash in the middle of a step loses.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from random import Random

from floodmark.controller.isr import IsrMember, IsrProposal
from floodmark.metadata.image import PartitionImage
from floodmark.promise import Promise
from floodmark.records.validation import ProduceRules
from floodmark.replication import follower
from floodmark.replication.fetching import ReplicaKey
from floodmark.replication.follower import (
    Append,
    FollowerAnswer,
    FollowerFetch,
    StartAt,
    TruncateTo,
)
from floodmark.replication.partition import (
    UNKNOWN_BROKER_EPOCH,
    Leadership,
    Partition,
    ProposedReplica,
)
from floodmark.replication.purgatory import Purgatory
from floodmark.replication.replica import AppendOutcome, Isolation, Replica
from floodmark.replication.waiting import WaitingProduce
from floodmark.storage.errors import DiskFull
from floodmark.storage.log_config import LogConfig
from floodmark.storage.log_manager import LogManager
from floodmark.testing.crashing_files import CrashingFiles
from floodmark.testing.simulated_controller import TOPIC, TOPIC_ID
from floodmark.testing.simulated_network import (
    CONTROLLER,
    AlterPartition,
    AlterPartitionAnswer,
    ConsumerFetch,
    ConsumerFetchAnswer,
    LeaderAndIsr,
    Message,
    Payload,
    Produce,
    ProduceAnswer,
    ReplicaFetch,
    ReplicaFetchAnswer,
)
from floodmark.testing.virtual_clock import VirtualClock
from floodmark.wire.errors import ErrorCode

LOG_DIR = Path("/logs")
KEY: ReplicaKey = (TOPIC, 0)
PRODUCE_TIMEOUT_MS = 400.0
# Small, so that schedules of a hundred batches roll segments and use indexes.
LOG_CONFIG = LogConfig(segment_bytes=1200, index_interval_bytes=200)
_RULES = ProduceRules()


class SimulatedBroker:
    def __init__(
        self,
        broker_id: int,
        clock: VirtualClock,
        min_in_sync_replicas: int,
        replica_lag_max_ms: float,
    ) -> None:
        self.id = broker_id
        self.clock = clock
        self.min_in_sync_replicas = min_in_sync_replicas
        self.replica_lag_max_ms = replica_lag_max_ms
        self.files = CrashingFiles()
        self.outbox: list[Message] = []
        # Acknowledged in this step: (acks, base offset, batch).
        self.acknowledged: list[tuple[int, int, bytes]] = []
        self.incarnation = 0
        self.broker_epoch = -1
        self.running = False
        # The broker epoch in which a power loss took what was not synced: nothing is expected of
        # this disk until the controller has noticed and the replica is out of the in-sync ones.
        self.lost_data_in_epoch: int | None = None

    @property
    def has_lost_data(self) -> bool:
        return self.lost_data_in_epoch is not None

    # Life and death

    def start(self) -> None:
        self.incarnation += 1
        # Somebody has made room: a broker cannot recover its logs on a full disk.
        self.files.faults.space_bytes = None
        self.broker_epoch = -1
        self.manager = LogManager(self.files, [LOG_DIR], recovery_threads=1)
        self.manager.open_dirs()
        now_ms = self.clock.now_ms()
        # Found, but opened like a log that comes late: the same recovery without the loading
        # threads, which would take a third of the time of a schedule.
        self.manager.found_partitions()
        log = self.manager.get_or_create(TOPIC, 0, TOPIC_ID, LOG_CONFIG, now_ms=now_ms)
        core = Partition(
            self.id,
            log_end_offset=log.log_end_offset,
            high_watermark=self.manager.high_watermarks.get(KEY, 0),
        )
        self.replica = Replica(core, log, TOPIC_ID, _RULES, self.min_in_sync_replicas)
        self.produces: Purgatory[ReplicaKey] = Purgatory()
        self.running = True

    def stop(self) -> None:
        """A clean stop: everything is synced and marked as such, if the disk has room for it."""
        with suppress(DiskFull):
            self.checkpoint()
        self.manager.close(self.clock.now_ms(), broker_epoch=self.broker_epoch)
        self._end()

    def kill(self) -> None:
        """kill -9: the process is gone, what it has written is in the page cache."""
        self.manager.close(0, clean=False)
        self._end()

    def lose_power(self, random: Random) -> None:
        self.files = self.files.crash(random)
        self.lost_data_in_epoch = self.broker_epoch
        self._end()

    def _end(self) -> None:
        self.running = False
        self.files.crash_after = None
        self.outbox.clear()
        self.acknowledged.clear()

    # What comes over the network

    def receive(self, source: int, payload: Payload) -> None:
        match payload:
            case LeaderAndIsr():
                self._lead_or_follow(payload)
            case AlterPartitionAnswer():
                self._isr_answered(payload)
            case ReplicaFetch():
                self._serve_follower(source, payload)
            case ReplicaFetchAnswer():
                self._fetched(payload)
            case Produce():
                self._append(source, payload)
            case ConsumerFetch():
                self._serve_consumer(source, payload)
            case _:
                raise TypeError(f"no message for a broker: {payload}")

    def _is_for_us(self, told: LeaderAndIsr) -> bool:
        """What was meant for an earlier life of this broker is not obeyed (KIP-380)."""
        return told.broker_epoch == self.broker_epoch

    def _lead_or_follow(self, told: LeaderAndIsr) -> None:
        if self._is_for_us(told):
            self._apply(told.partition)

    def _apply(self, partition: PartitionImage) -> None:
        leadership = Leadership(
            partition.leader,
            partition.leader_epoch,
            partition.partition_epoch,
            partition.isr,
            partition.replicas,
        )
        if self.replica.lead_or_follow(leadership, self.clock.monotonic_ms()):
            self.produces.check(KEY)

    def _send(self, target: int, payload: Payload) -> None:
        self.outbox.append(Message(self.id, target, payload))

    # Leading

    def _append(self, source: int, produce: Produce) -> None:
        batch = memoryview(bytearray(produce.batch))
        appended = self.replica.append(batch, produce.acks, self.clock.now_ms(), False)
        outcome = self.replica.in_full(appended)
        self.produces.check(KEY)
        promise: Promise[dict[ReplicaKey, AppendOutcome]] = Promise()
        outcomes = {KEY: outcome}
        operation = WaitingProduce(outcomes, produce.acks, self._find, promise)
        if operation.is_done():
            promise.set(outcomes)
        else:
            deadline_ms = self.clock.monotonic_ms() + PRODUCE_TIMEOUT_MS
            self.produces.watch(operation, [KEY], deadline_ms)

        def answer(final: dict[ReplicaKey, AppendOutcome]) -> None:
            result = final[KEY]
            if result.error_code is ErrorCode.NONE:
                self.acknowledged.append((produce.acks, result.base_offset, produce.batch))
            reply = ProduceAnswer(produce.request, result.error_code, result.base_offset)
            self._send(source, reply)

        promise.then(answer, _raise)

    def _find(self, key: ReplicaKey) -> Replica | None:
        return self.replica

    def expire_waiting(self) -> None:
        self.produces.expire(self.clock.monotonic_ms())

    def _serve_follower(self, source: int, request: ReplicaFetch) -> None:
        outcome = self.replica.read_for_follower(
            source,
            request.broker_epoch,
            request.fetch,
            request.max_bytes,
            self.clock.monotonic_ms(),
        )
        self.produces.check(KEY)
        answer = FollowerAnswer(outcome.error_code, outcome.high_watermark)
        if outcome.divergence is not None:
            epoch, end_offset = outcome.divergence
            answer = answer._replace(diverging_epoch=epoch, diverging_end_offset=end_offset)
        records = b"" if outcome.records is None else bytes(outcome.records.read())
        reply = ReplicaFetchAnswer(request.incarnation, request.fetch, answer, records)
        self._send(source, reply)
        if self.replica.core.proposal is None and self.replica.core.caught_up():
            self.review_isr()

    def _serve_consumer(self, source: int, request: ConsumerFetch) -> None:
        outcome = self.replica.read(
            request.fetch_offset,
            request.max_bytes,
            Isolation.READ_UNCOMMITTED,
            is_follower=False,
            min_one_batch=True,
        )
        records = b"" if outcome.records is None else bytes(outcome.records.read())
        reply = ConsumerFetchAnswer(request.fetch_offset, outcome.error_code, records)
        self._send(source, reply)

    def review_isr(self) -> None:
        """Proposes a change of the in-sync replicas, or repeats what was not answered."""
        core = self.replica.core
        if not core.is_leader:
            return
        core.propose_in_sync_replicas(self.clock.monotonic_ms(), self.replica_lag_max_ms)
        if core.proposal is None:
            return
        leadership = core.leadership
        members = [
            IsrMember(replica, self.broker_epoch if replica == self.id else broker_epoch)
            for replica, broker_epoch in core.proposal
        ]
        proposal = IsrProposal(
            TOPIC_ID, 0, leadership.leader_epoch, leadership.partition_epoch, members
        )
        self._send(CONTROLLER, AlterPartition(self.broker_epoch, proposal))

    def _isr_answered(self, answered: AlterPartitionAnswer) -> None:
        leadership = self.replica.core.leadership
        proposal = answered.proposal
        if (proposal.leader_epoch, proposal.partition_epoch) != (
            leadership.leader_epoch,
            leadership.partition_epoch,
        ):
            return
        if answered.error_code is ErrorCode.INELIGIBLE_REPLICA:
            self.replica.core.proposal_refused(self._as_proposed(proposal))
        elif answered.answer is not None and answered.answer.state is not None:
            self._apply(answered.answer.state)

    def _as_proposed(self, proposal: IsrProposal) -> tuple[ProposedReplica, ...]:
        return tuple(
            ProposedReplica(
                member.broker_id,
                UNKNOWN_BROKER_EPOCH if member.broker_id == self.id else member.broker_epoch,
            )
            for member in proposal.new_isr
        )

    # Following

    def fetch(self, random: Random) -> None:
        """One round of the loop that follows a leader."""
        fetch = self._next_fetch()
        if fetch is not None:
            max_bytes = random.choice((150, 400, 5000))
            self._send(
                fetch.leader,
                ReplicaFetch(self.incarnation, self.broker_epoch, fetch, max_bytes),
            )

    def _next_fetch(self) -> FollowerFetch | None:
        return follower.next_fetch(self.replica.core, self.replica.log.leader_epochs.latest)

    def _decide(self, answered: ReplicaFetchAnswer) -> follower.Step:
        log = self.replica.log
        return follower.decide(
            self.replica.core,
            log.leader_epochs.latest,
            answered.fetch,
            answered.answer,
            log.end_offset_for_epoch,
        )

    def _fetched(self, answered: ReplicaFetchAnswer) -> None:
        if answered.incarnation != self.incarnation:
            return
        core, log = self.replica.core, self.replica.log
        now_ms = self.clock.now_ms()
        match self._decide(answered):
            case Append(leader_high_watermark):
                log.append_as_follower(answered.records, now_ms)
                core.followed(log.log_end_offset, leader_high_watermark)
            case TruncateTo(offset):
                self.manager.truncate_to(log, offset, now_ms)
                core.truncated(log.log_end_offset)
            case StartAt(offset):
                self.manager.truncate_fully_and_start_at(log, offset, now_ms)
                core.truncated(log.log_end_offset)

    # Housekeeping

    def flush(self) -> None:
        self.replica.log.fsync(self.clock.now_ms())
        self.manager.checkpoint_recovery_points()

    def checkpoint(self) -> None:
        self.manager.checkpoint_high_watermarks({KEY: self.replica.core.high_watermark})


def _raise(problem: Exception) -> None:
    raise problem
