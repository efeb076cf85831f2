"""The simulated metadata store: the embedded store's table, with many sessions.

Like an ensemble, it does not fail. But links to it break, sessions expire, and writes or their
responses get lost. Large writes are split, so a controller may lose the store in mid-decision.
`truth` holds the stored state of each partition, for the invariants.
"""

from __future__ import annotations

from collections.abc import Coroutine, Mapping, Sequence
from itertools import count
from typing import Any, TypeVar, cast

from floodmark.controller import known_brokers
from floodmark.controller.topics import topic_operations
from floodmark.metadata import paths
from floodmark.metadata.image import BrokerInfo, MetadataImage, PartitionImage, TopicImage
from floodmark.metadata.loader import load_image
from floodmark.metadata.node_table import NodeTable
from floodmark.metadata.store import (
    Create,
    Delete,
    Node,
    Operation,
    Outcome,
    SetData,
    Store,
    StoreUnavailable,
)
from floodmark.testing.simulation.plan import Plan
from floodmark.vocabulary import NO_LEADER, TopicPartition

T = TypeVar("T")


class SimulatedStore:
    def __init__(self, plan: Plan) -> None:
        self._table = NodeTable(":memory:")
        self._session_ids = count(1)
        # Open sessions and their brokers.
        self.sessions: dict[int, int] = {}
        self.truth: dict[TopicPartition, PartitionImage] = {}
        # The brokers a controller has processed, with their broker epoch.
        self.known: dict[int, BrokerInfo] = {}
        # The leader epoch of a partition's last unclean election.
        self.unclean_epochs: dict[TopicPartition, int] = {}
        self.loses_next_answer = False
        # The number of writes before one is lost; None if none is.
        self.writes_until_lost: int | None = None
        self.multi_limit_bytes: int | None = None
        self.controller_id: int | None = None
        # The number of elections.
        self.elections = 0
        self._create(plan)

    def _create(self, plan: Plan) -> None:
        operations: list[Operation] = [Create(path) for path in paths.PERSISTENT_PATHS]
        operations.append(Create(paths.CONTROLLER_EPOCH, b"0"))
        self._unclean = {key for topic in plan.topics if not topic.is_clean for key in topic.keys}
        self._keys = {paths.state_path(*key): key for key in plan.keys}
        self._topics = {paths.topic_path(topic.name): topic.name for topic in plan.topics}
        self._eligible_keys = {paths.eligible_path(*key): key for key in plan.keys}
        for topic in plan.topics:
            partitions = tuple(
                PartitionImage(replicas[0], 0, 0, replicas, replicas) for replicas in topic.replicas
            )
            image = TopicImage(topic.name, topic.topic_id, partitions)
            operations += topic_operations(MetadataImage(), image, topic.settings)
            self.truth.update(zip(topic.keys, partitions, strict=True))
        self._table.multi(operations, 0)

    def close(self) -> None:
        self._table.close()

    # Sessions

    def begin_session(self, broker_id: int) -> int:
        session = next(self._session_ids)
        self.sessions[session] = broker_id
        return session

    def end_session(self, session: int) -> None:
        """Removes the session's nodes, if it is still open."""
        if self.sessions.pop(session, None) is not None:
            self._table.end_session(session)
            self._look_for_controller()

    def register(self, broker: BrokerInfo, session: int) -> int:
        """Creates a broker's node, replacing one of an earlier session.

        Returns its broker epoch.
        """
        path = paths.broker_path(broker.id)
        create = Create(path, paths.encode_broker(broker, 0), ephemeral=True)
        stale = self._table.get(path)
        self._table.multi([create] if stale is None else [Delete(path), create], session)
        node = self._table.get(path)
        assert node is not None
        return node.created_zxid

    def _look_for_controller(self) -> None:
        node = self._table.get(paths.CONTROLLER)
        before = self.controller_id
        self.controller_id = None if node is None else paths.decode_controller(node.data)
        if before is None and self.controller_id is not None:
            self.elections += 1

    # The store port, as far as loading an image needs it, and a synchronous version

    async def get(self, path: str) -> Node | None:
        return self._table.get(path)

    async def read_tree(self, path: str) -> Mapping[str, Node]:
        return self._table.read_tree(path)

    def read(self, path: str) -> Node | None:
        return self._table.get(path)

    def tree(self, path: str) -> Mapping[str, Node]:
        return self._table.read_tree(path)

    def load(self) -> MetadataImage:
        return _now(load_image(cast("Store", self)))

    def write(self, operations: Sequence[Operation], session: int) -> list[Outcome]:
        if self.writes_until_lost is not None:
            self.writes_until_lost -= 1
            if self.writes_until_lost < 0:
                self.writes_until_lost = None
                raise StoreUnavailable("/", "the connection broke before the write")
        outcomes, _ = self._table.multi(operations, session)
        for operation in operations:
            if operation.path in self._eligible_keys:
                self._note_eligible(self._eligible_keys[operation.path])
            elif not isinstance(operation, SetData):
                self._look_for_controller()
            elif operation.path in self._keys:
                self._note(self._keys[operation.path], operation)
            elif operation.path in self._topics:
                self._note_assignment(self._topics[operation.path], operation.data)
            elif operation.path == paths.KNOWN_BROKERS:
                self.known = known_brokers.recall(operation.data)
        if self.loses_next_answer:
            self.loses_next_answer = False
            raise StoreUnavailable("/", "the connection broke before the response")
        return outcomes

    def _eligible(self, key: TopicPartition, version: int) -> tuple[int, ...]:
        node = self._table.get(paths.eligible_path(*key))
        return () if node is None else paths.decode_eligible(node.data, version)

    def _note_eligible(self, key: TopicPartition) -> None:
        """May be in a different multi than the state it belongs to."""
        before = self.truth[key]
        eligible = self._eligible(key, before.partition_epoch)
        self.truth[key] = before._replace(eligible_leader_replicas=eligible)

    def _note_assignment(self, topic: str, data: bytes) -> None:
        assignment = paths.decode_topic(data)
        for index, replicas in assignment.replicas.items():
            self.truth[topic, index] = self.truth[topic, index]._replace(
                replicas=replicas,
                adding_replicas=assignment.adding_replicas.get(index, ()),
                removing_replicas=assignment.removing_replicas.get(index, ()),
            )

    def _note(self, key: TopicPartition, operation: SetData) -> None:
        state = paths.decode_state(operation.data)
        before = self.truth[key]
        version = before.partition_epoch + 1
        replicas = self._eligible(key, version)
        is_outsider = state.leader not in (NO_LEADER, *before.isr)
        # The last in-sync replica is no longer trusted but still leads.
        is_distrusted = before.isr == state.isr == (state.leader,)
        may_be_unclean = is_outsider or (is_distrusted and before.eligible_leader_replicas)
        if may_be_unclean and not replicas and key in self._unclean:
            self.unclean_epochs[key] = state.leader_epoch
        self.truth[key] = before._replace(
            leader=state.leader,
            leader_epoch=state.leader_epoch,
            partition_epoch=version,
            isr=state.isr,
            eligible_leader_replicas=replicas,
        )


def _now(coroutine: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that never waits."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        outcome: T = end.value
        return outcome
    raise RuntimeError("nothing in a simulation waits for a loop")
