"""The simulated controller: a role of one broker at a time, with the real decision code.

Stores every decision in a multi that checks the controller epoch (KAFKA-6082), then sends it to the
brokers. A replaced controller continues until it notices, or until the store refuses it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cache
from typing import Any
from uuid import UUID

from floodmark.config import BrokerConfig
from floodmark.controller import isr, known_brokers, membership, reassignment
from floodmark.controller.cutting import cut
from floodmark.controller.decision import Decision, View
from floodmark.controller.election import candidacy
from floodmark.controller.elections import elect_leaders, led_by
from floodmark.controller.partition_states import store_partitions
from floodmark.metadata import paths
from floodmark.metadata.image import MetadataImage, PartitionImage
from floodmark.metadata.loader import Identity, decode_brokers
from floodmark.metadata.store import (
    BadVersion,
    Check,
    NodeExists,
    Operation,
    StoreUnavailable,
)
from floodmark.testing.crashing_files import CrashNow
from floodmark.testing.simulation.messages import (
    AlterPartition,
    AlterPartitionAnswer,
    LeaderAndIsr,
    Payload,
    StopReplica,
    UpdateMetadata,
)
from floodmark.testing.simulation.store import SimulatedStore
from floodmark.vocabulary import TopicPartition
from floodmark.wire.numbers import ElectionType

Send = Callable[[int, Payload], None]


class Resigned(Exception):
    """The store says that another controller was elected."""


@cache
def _config() -> BrokerConfig:
    return BrokerConfig.load({})


def elect(
    store: SimulatedStore, broker_id: int, session: int, now_ms: int, send: Send
) -> SimulatedController:
    """Makes a broker the controller. Raises Resigned if another one was faster."""
    known = store.read(paths.CONTROLLER_EPOCH)
    assert known is not None
    bid = candidacy(Identity(None, int(known.data), known.version), broker_id, now_ms)
    try:
        store.write(bid.operations, session)
    except (BadVersion, NodeExists) as problem:
        raise Resigned from problem
    except StoreUnavailable as problem:
        # Read before deciding: the write may have succeeded.
        if not bid.has_won(store.read(paths.CONTROLLER), store.read(paths.CONTROLLER_EPOCH)):
            raise Resigned from problem
    return SimulatedController(store, session, int(bid.raised_epoch.data), bid.epoch_version, send)


class SimulatedController:
    def __init__(
        self,
        store: SimulatedStore,
        session: int,
        controller_epoch: int,
        epoch_version: int,
        send: Send,
    ) -> None:
        self._store = store
        self.session = session
        self._send = send
        self._epoch_version = epoch_version
        self._must_load = True
        self.controller_epoch = controller_epoch
        self.image = MetadataImage()
        # Crashes with its broker after the next write, before it informs anyone.
        self.dies_after_write = False

    @property
    def knows_the_store(self) -> bool:
        """Whether its image matches the store as last read or written. If not, it reloads first."""
        return not self._must_load

    def take_over(self) -> None:
        """Reads the store, processes broker changes, and informs all brokers."""
        self._load_if_needed()
        self.look_at_brokers()
        self._carry_out(reassignment.complete_all(self._view()))
        for broker_id in self.image.brokers:
            self.tell(broker_id)

    # Decisions

    def look_at_brokers(self) -> None:
        """Handles a fired watch: checks which brokers are registered."""
        self._load_if_needed()
        registered = decode_brokers(self._store.tree(paths.BROKER_IDS))
        changes = known_brokers.compare(self.image.brokers, registered)
        for broker in changes.restarted:
            self._carry_out(membership.broker_registered(self._view(), broker))
            self.tell(broker.id)
        for broker_id in changes.gone:
            self._carry_out(membership.broker_gone(self._view(), broker_id))
        for broker in changes.new:
            self._carry_out(membership.broker_registered(self._view(), broker))
            self.tell(broker.id)
        self._carry_out(membership.lead_leaderless(self._view()))

    def take_for_dead(self, broker_id: int, broker_epoch: int) -> None:
        """A port refused a connection. This may concern an earlier life of the broker."""
        self._load_if_needed()
        self._carry_out(membership.broker_died(self._view(), broker_id, broker_epoch))

    def take_back(self, broker_id: int, broker_epoch: int) -> None:
        """A broker responded under this epoch, even though it was considered dead."""
        self._load_if_needed()
        registered = decode_brokers(self._store.tree(paths.BROKER_IDS)).get(broker_id)
        if registered is not None and registered.broker_epoch == broker_epoch:
            self._carry_out(membership.broker_lives(self._view(), registered))
            self.tell(broker_id)

    def elect_preferred(self) -> None:
        self._load_if_needed()
        self._carry_out(elect_leaders(self._view(), ElectionType.PREFERRED, None))

    def elect_uncleanly(self, keys: Sequence[TopicPartition]) -> None:
        self._load_if_needed()
        self._carry_out(elect_leaders(self._view(), ElectionType.UNCLEAN, list(keys)))

    def move_leader(self, key: TopicPartition, leader: int) -> None:
        """Elects another in-sync replica while the leader lives, as before its shutdown."""
        self._load_if_needed()
        partition = self.image.partition(*key)
        if partition is None or leader not in partition.isr or not self.image.is_live(leader):
            return
        moved = led_by(partition, leader, partition.isr)
        operations, change = store_partitions(self.image, {key: moved})
        self._carry_out(Decision(None, operations, change))

    def reassign(self, key: TopicPartition, replicas: tuple[int, ...] | None) -> None:
        """Moves a partition to these replicas. None cancels a move."""
        self._load_if_needed()
        wanted = reassignment.Reassignment(*key, replicas)
        self._carry_out(reassignment.reassign_partitions(self._view(), [wanted]))

    def alter_partition(self, source: int, request: AlterPartition) -> None:
        self._load_if_needed()
        decision = isr.alter_partitions(
            self._view(), source, request.broker_epoch, [request.proposal]
        )
        self._carry_out(decision)
        answer = decision.answer
        one = answer.partitions[0] if answer.partitions else None
        error_code = answer.error_code if one is None else one.error_code
        self._send(source, AlterPartitionAnswer(request.key, request.proposal, error_code, one))

    # Informing brokers

    def tell(self, broker_id: int) -> None:
        """Sends a broker the current state of its partitions and the controller's identity."""
        self._tell(broker_id, self._partitions())
        broker = self.image.brokers.get(broker_id)
        if broker is not None and not broker.is_fenced:
            self._send(broker_id, UpdateMetadata(self.controller_epoch, broker.broker_epoch))

    def _tell(
        self, broker_id: int, partitions: Iterable[tuple[TopicPartition, PartitionImage]]
    ) -> None:
        broker = self.image.brokers.get(broker_id)
        here = tuple(item for item in partitions if broker_id in item[1].replicas)
        if broker is not None and not broker.is_fenced and here:
            self._send(broker_id, LeaderAndIsr(self.controller_epoch, broker.broker_epoch, here))

    def _partitions(self) -> list[tuple[TopicPartition, PartitionImage]]:
        return [
            ((name, index), partition)
            for name, topic in self.image.topics.items()
            for index, partition in enumerate(topic.partitions)
        ]

    # The store

    def _carry_out(self, decision: Decision[Any]) -> None:
        if not decision.operations and not decision.change.brokers:
            return
        after = self.image.apply(decision.change)
        remembered = known_brokers.remember(after.brokers)
        decided = [op for op in decision.operations if op != remembered]
        self._write([*decided, remembered])
        before, self.image = self.image, after
        changed = [
            (key, partition)
            for key, partition in self._partitions()
            if partition != before.partition(*key)
        ]
        for broker_id in self.image.brokers:
            self._tell(broker_id, changed)
        for key, partition in changed:
            old = before.partition(*key)
            for broker_id in () if old is None else set(old.replicas) - set(partition.replicas):
                self._stop(broker_id, key, partition)

    def _stop(self, broker_id: int, key: TopicPartition, partition: PartitionImage) -> None:
        broker = self.image.brokers.get(broker_id)
        if broker is not None and not broker.is_fenced:
            told = StopReplica(self.controller_epoch, broker.broker_epoch, key, partition)
            self._send(broker_id, told)

    def _write(self, operations: Sequence[Operation]) -> None:
        check = Check(paths.CONTROLLER_EPOCH, self._epoch_version)
        try:
            for some in cut(operations, self._store.multi_limit_bytes):
                self._store.write([check, *some], self.session)
                if self.dies_after_write:
                    raise CrashNow
        except BadVersion as problem:
            if problem.path == paths.CONTROLLER_EPOCH:
                raise Resigned from problem
            self._must_load = True
            raise StoreUnavailable(problem.path, "our image is stale") from problem
        except StoreUnavailable:
            # The write may or may not have been stored: read before writing again.
            self._must_load = True
            raise

    def _load_if_needed(self) -> None:
        """Reloads the image. Its brokers are the ones a controller has processed."""
        if not self._must_load:
            return
        node = self._store.read(paths.KNOWN_BROKERS)
        assert node is not None
        brokers = known_brokers.recall(node.data)
        self.image = replace(
            self._store.load(), brokers=brokers, controller_epoch=self.controller_epoch
        )
        self._must_load = False
        for broker_id in self.image.brokers:
            self.tell(broker_id)

    def _view(self) -> View:
        return View(self.image, _config(), lambda _: 0, lambda: UUID(int=0))
