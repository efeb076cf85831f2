"""The named invariants that must hold after every step of a simulation.

They cover the replication promises of RELIABILITY.md: acknowledged records are never lost (1), an
offset has one value forever (2), aborted records are never read under read_committed (3), and no
batch appears twice (4). Unclean elections may break the first two, on topics that allow them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from floodmark.invariant import InvariantViolation, invariant
from floodmark.metadata.image import PartitionImage
from floodmark.records.batch import read_header
from floodmark.replication.outcomes import ACKS_ALL
from floodmark.replication.replica import Replica
from floodmark.testing.simulation.broker import SimulatedBroker
from floodmark.testing.simulation.consumers import SimulatedConsumer
from floodmark.testing.simulation.leading import Acknowledged
from floodmark.testing.simulation.log_view import History, LogView
from floodmark.testing.simulation.producers import Outcome, TransactionalProducer
from floodmark.testing.simulation.store import SimulatedStore
from floodmark.vocabulary import TopicPartition

# The leader sets base offset and leader epoch; the producer's part starts at the magic byte.
_PRODUCERS_PART = 16


class Invariants:
    def __init__(
        self, store: SimulatedStore, transactional: Sequence[TransactionalProducer]
    ) -> None:
        self._store = store
        self._transactional = {f"t{one.id}": one for one in transactional}
        self._partitions = {key: PartitionInvariants(key) for key in store.truth}
        self.acknowledged = 0
        # Controller epoch -> (broker, incarnation, session) of the controller.
        self._controllers: dict[int, tuple[int, int, int]] = {}
        # (broker, incarnation) -> the highest controller epoch it has obeyed.
        self._obeyed: dict[tuple[int, int], int] = {}

    def history(self, key: TopicPartition) -> History:
        return self._partitions[key].history

    def view_of(self, broker: SimulatedBroker, key: TopicPartition) -> LogView:
        return self._partitions[key].views[broker.id]

    def check(self, brokers: Sequence[SimulatedBroker]) -> None:
        running = [broker for broker in brokers if broker.is_running]
        for key, truth in self._store.truth.items():
            unclean_epoch = self._store.unclean_epochs.get(key, 0)
            self._partitions[key].check(running, truth, unclean_epoch)
        for broker in running:
            for one in broker.acknowledged:
                self._acknowledged_is_committed(broker, one)
            self._one_controller_owns_the_store(broker)
            self._one_controller_per_epoch(broker)
            self._controller_epochs_rise(broker)

    def _acknowledged_is_committed(self, broker: SimulatedBroker, one: Acknowledged) -> None:
        """A batch acknowledged by all is committed at its offset and never disappears."""
        if one.acks != ACKS_ALL:
            return
        self.acknowledged += 1
        end_offset = one.base_offset + read_header(one.batch).last_offset_delta + 1
        history = self._partitions[one.key].history_of(one.leader_epoch)
        invariant(
            history.holds(one.base_offset, end_offset, one.batch, _PRODUCERS_PART),
            f"no-acknowledged-record-lost: broker {broker.id} acknowledged offset "
            f"{one.base_offset} of {one.key} before it was committed",
        )

    def _one_controller_owns_the_store(self, broker: SimulatedBroker) -> None:
        """What the elected controller believes is stored, is stored (KAFKA-6082)."""
        role = broker.controller
        if role is None or not role.knows_the_store or self._store.controller_id != broker.id:
            return
        for key, truth in self._store.truth.items():
            known = role.image.partition(*key)
            if known != truth:
                raise InvariantViolation(
                    f"one-controller-owns-the-store: {key} is stored as {truth}, and controller "
                    f"{broker.id} believes it is {known}"
                )

    def _one_controller_per_epoch(self, broker: SimulatedBroker) -> None:
        role = broker.controller
        if role is None:
            return
        me = (broker.id, broker.incarnation, role.session)
        known = self._controllers.setdefault(role.controller_epoch, me)
        invariant(
            known == me,
            f"one-controller-per-epoch: {role.controller_epoch} is that of {known} and {me}",
        )

    def _controller_epochs_rise(self, broker: SimulatedBroker) -> None:
        """No broker obeys a controller that it knows was replaced (KAFKA-14154)."""
        me = (broker.id, broker.incarnation)
        for controller_epoch in broker.obeyed:
            highest = self._obeyed.get(me, 0)
            invariant(
                controller_epoch >= highest,
                f"controller-epochs-rise: broker {broker.id} obeyed controller {controller_epoch} "
                f"after {highest}",
            )
            self._obeyed[me] = controller_epoch

    def check_consumer(self, consumer: SimulatedConsumer) -> None:
        partition = self._partitions[consumer.key]
        for batch in consumer.batches:
            header = read_header(batch)
            invariant(
                any(
                    history.holds(header.base_offset, header.next_offset, batch, 0)
                    for history in partition.histories
                ),
                f"reads-are-committed: consumer {consumer.id} read an uncommitted record at "
                f"{header.base_offset} of {consumer.key}",
            )
        consumer.batches.clear()
        for value in consumer.given:
            self._committed_alone_is_read(value)
        consumer.given.clear()

    def _committed_alone_is_read(self, value: bytes) -> None:
        name, _, rest = value.decode().partition("-")
        producer = self._transactional.get(name)
        if producer is not None:
            outcome = producer.outcomes[int(rest.partition("-")[0])]
            invariant(
                outcome is Outcome.COMMITTED,
                f"aborted-is-never-read: {value!r} was read under read_committed and is "
                f"{outcome.value}",
            )


class PartitionInvariants:
    def __init__(self, key: TopicPartition) -> None:
        self._key = key
        self.views: dict[int, LogView] = {}
        self.histories = [History()]
        self._checked: list[object] = []
        # Leader epoch -> (broker, incarnation).
        self._leaders: dict[int, tuple[int, int]] = {}
        # (broker, incarnation, leader epoch) -> high watermark.
        self._high_watermarks: dict[tuple[int, int, int], int] = {}

    @property
    def history(self) -> History:
        return self.histories[-1]

    def history_of(self, leader_epoch: int) -> History:
        return next(
            history for history in reversed(self.histories) if history.first_epoch <= leader_epoch
        )

    def check(
        self, running: Sequence[SimulatedBroker], truth: PartitionImage, unclean_epoch: int
    ) -> None:
        here = self._replicas(running)
        state = self._state_of(here, truth, unclean_epoch)
        if state == self._checked:
            return
        self._checked = state
        for broker, replica in here.items():
            view = self.views.setdefault(broker.id, LogView())
            view.refresh(self._name(broker), replica.log)
        for broker, replica in here.items():
            if replica.core.is_leader:
                self._fork_if_unclean(broker, replica, unclean_epoch)
                self._one_leader_per_epoch(broker, replica)
                self._high_watermark_never_goes_back(broker, replica)
                history = self.history_of(replica.core.leadership.leader_epoch)
                view, name = self.views[broker.id], self._name(broker)
                start_offset = replica.log.log_start_offset
                history.show(name, view, start_offset, replica.core.high_watermark)
        if self.history.first_epoch < unclean_epoch:
            return  # Nobody has led yet in the history that counts from now on.
        for broker in here:
            if broker.id in (*truth.isr, *truth.eligible_leader_replicas):
                self._has_all_committed(broker, here[broker].log.log_start_offset)

    def _state_of(
        self, here: Mapping[SimulatedBroker, Replica], truth: PartitionImage, unclean_epoch: int
    ) -> list[object]:
        """All inputs of the checks. Most steps change one partition or none."""
        state: list[object] = [truth, unclean_epoch]
        for broker, replica in here.items():
            core, log = replica.core, replica.log
            state += (
                log,
                log.log_end_offset,
                log.segments[0].base_offset,
                core.leadership,
                core.high_watermark,
                self._key in broker.lost_data_in,
            )
        return state

    def _replicas(self, running: Sequence[SimulatedBroker]) -> Mapping[SimulatedBroker, Replica]:
        found = {broker: broker.replicas.find(self._key) for broker in running}
        return {broker: replica for broker, replica in found.items() if replica is not None}

    def _name(self, broker: SimulatedBroker) -> str:
        return f"broker {broker.id} of {self._key[0]}-{self._key[1]}"

    def _fork_if_unclean(
        self, broker: SimulatedBroker, replica: Replica, unclean_epoch: int
    ) -> None:
        leader_epoch = replica.core.leadership.leader_epoch
        if self.history.first_epoch < unclean_epoch <= leader_epoch:
            fork = self.history.forked(unclean_epoch, self.views[broker.id])
            self.histories.append(fork)

    def _one_leader_per_epoch(self, broker: SimulatedBroker, replica: Replica) -> None:
        leader_epoch = replica.core.leadership.leader_epoch
        me = (broker.id, broker.incarnation)
        known = self._leaders.setdefault(leader_epoch, me)
        invariant(
            known == me,
            f"one-leader-per-epoch: epoch {leader_epoch} of {self._key} is led by {known} and {me}",
        )

    def _high_watermark_never_goes_back(self, broker: SimulatedBroker, replica: Replica) -> None:
        core = replica.core
        key = (broker.id, broker.incarnation, core.leadership.leader_epoch)
        before = self._high_watermarks.get(key, 0)
        invariant(
            core.high_watermark >= before,
            f"high-watermark-never-goes-back: from {before} to {core.high_watermark} on {key}",
        )
        self._high_watermarks[key] = core.high_watermark

    def _has_all_committed(self, broker: SimulatedBroker, log_start_offset: int) -> None:
        """Every electable replica has all committed records, so no acknowledged one is lost."""
        if self._key in broker.lost_data_in:
            return
        view, end_offset = self.views[broker.id], self.history.end_offset
        invariant(
            view.end_offset >= end_offset,
            f"high-watermark-within-isr: {self._name(broker)} is in sync or eligible and ends at "
            f"{view.end_offset}, committed is up to {end_offset}: acknowledged records can be lost",
        )
        self.history.same(self._name(broker), view, log_start_offset, end_offset)
