"""A producer's transactions: identity, state, and completion.

Belongs to `producer.py`, which exposes the calls, and to `sender.py`, which asks before it sends a
batch. Supports both of Kafka's protocols. In the first, a partition is added before its first batch
and the epoch stays. In the second (KIP-890, feature `transaction.version` 2), the produce request
adds it, and every transaction ends with a new epoch.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from enum import Enum

from floodmark.client.cluster.cluster import Cluster
from floodmark.client.cluster.view import TopicPartition
from floodmark.client.consumer.group_offsets import GroupMetadata, Offsets
from floodmark.client.errors import KafkaError
from floodmark.client.producer import transaction_requests as requests
from floodmark.client.producer.partition_queue import ProducerIdentity
from floodmark.client.settings import ProducerSettings
from floodmark.wire.errors import ErrorCode


class State(Enum):
    UNINITIALIZED = "not initialized: call init_transactions first"
    READY = "not open: call begin_transaction first"
    OPEN = "open"
    COMMITTING = "being committed"
    ABORTING = "being aborted"
    FAILED = "failed: abort it"
    FENCED = "fenced: close the producer"


# Every allowed transition: the new state, and the states it may follow.
_ALLOWED: dict[State, frozenset[State]] = {
    State.READY: frozenset({State.UNINITIALIZED, State.COMMITTING, State.ABORTING}),
    State.OPEN: frozenset({State.READY}),
    # A commit or abort without a response may be repeated.
    State.COMMITTING: frozenset({State.OPEN, State.COMMITTING}),
    State.ABORTING: frozenset({State.OPEN, State.FAILED, State.ABORTING}),
    State.FAILED: frozenset({State.OPEN, State.COMMITTING}),
    State.FENCED: frozenset(State),
}

# After these errors, no transaction of this producer can succeed.
_FATAL_CODES = frozenset(
    {
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.UNSUPPORTED_VERSION,
        ErrorCode.INVALID_TXN_STATE,
    }
)


class Transactions:
    def __init__(
        self, cluster: Cluster, settings: ProducerSettings, on_change: Callable[[], None]
    ) -> None:
        """Calls `on_change` when waiting batches may be sent or must fail."""
        assert settings.transactional_id is not None
        self.transactional_id = settings.transactional_id
        self.identity = ProducerIdentity()
        self.is_second_protocol = False
        self.error: KafkaError | None = None
        self._cluster = cluster
        self._settings = settings
        self._on_change = on_change
        self._state = State.UNINITIALIZED
        self._partitions: set[TopicPartition] = set()
        self._unadded: set[TopicPartition] = set()
        self._adding: asyncio.Task[None] | None = None
        self._groups: set[str] = set()
        # We used sequences that the log may lack, or the coordinator may know more than we do. Only
        # a new epoch resolves this.
        self._must_renumber = False

    # --- the producer's calls ---

    async def initialize(self) -> None:
        """Gets an id and epoch, and ends an earlier producer's open transaction."""
        self._require(State.READY)
        if self._state is not State.UNINITIALIZED:
            # A new epoch would hide whether an unanswered commit succeeded.
            raise self._out_of_turn()
        await self._ask_for_identity(ProducerIdentity())
        self._state = State.READY

    def begin(self) -> None:
        self._move(State.OPEN)

    async def add_offsets(self, group: GroupMetadata, offsets: Offsets) -> None:
        self.require_open()
        try:
            if not self.is_second_protocol and group.group_id not in self._groups:
                await requests.add_group(
                    self._cluster, self._settings, self.identity, group.group_id
                )
            # Once the second protocol's request is sent, the group may belong to the transaction.
            self._groups.add(group.group_id)
            await requests.commit_group_offsets(
                self._cluster,
                self._settings,
                self.identity,
                group,
                offsets,
                second_protocol=self.is_second_protocol,
            )
        except KafkaError as error:
            self.fail(error)
            raise self.error or error from error

    def require_open(self) -> None:
        """Raises unless records and offsets may join the transaction."""
        if self.error is not None:
            raise self.error
        if self._state is not State.OPEN:
            raise self._out_of_turn()

    def require_committable(self) -> None:
        """Raises unless a commit may start or be repeated."""
        if self.error is not None:
            raise self.error
        self._require(State.COMMITTING)

    def begin_commit(self) -> None:
        self.require_committable()
        self._move(State.COMMITTING)

    def begin_abort(self) -> None:
        self._move(State.ABORTING)
        self._unadded.clear()

    async def end(self, *, timeout_ms: float | None = None) -> None:
        """Ends the transaction at the coordinator. Call again if there was no response."""
        if self.error is not None and self._state is not State.ABORTING:
            raise self.error
        if self._adding is not None:
            await asyncio.wait([self._adding])
        try:
            if self._partitions or self._groups:
                await self._end_at_coordinator(timeout_ms)
            if self._must_renumber:
                await self._ask_for_identity(self.identity, timeout_ms)
        except KafkaError as error:
            if not error.retriable:
                self.fail(error)
            raise
        self._forget()
        self._move(State.READY)

    @property
    def may_abort(self) -> bool:
        return self._state in _ALLOWED[State.ABORTING]

    async def stop(self) -> None:
        if self._adding is not None:
            self._adding.cancel()
            await asyncio.wait([self._adding])

    # --- the sender's questions ---

    @property
    def may_retry(self) -> bool:
        """Whether a refused batch may be retried."""
        return self._state is State.OPEN

    def may_send(self, partition: TopicPartition) -> bool:
        """Whether the partition belongs to the transaction. If not, starts adding it."""
        if partition in self._partitions:
            return True
        if self._state is not State.OPEN:
            return False
        if self.is_second_protocol:
            self._partitions.add(partition)
            return True
        self._unadded.add(partition)
        if self._adding is None:
            self._adding = asyncio.create_task(self._add_partitions())
        return False

    def lost(self, error: KafkaError, *, numbered: bool) -> None:
        """A batch is lost, so the transaction can no longer commit."""
        self._must_renumber = self._must_renumber or numbered
        self.fail(error)

    def fail(self, error: KafkaError) -> None:
        """The transaction must be aborted, or the producer closed if the error is fatal."""
        if self._state is State.FENCED:
            return
        if error.code in _FATAL_CODES:
            self._state = State.FENCED
            self.error = error
        elif self._state in _ALLOWED[State.FAILED]:
            self._state = State.FAILED
            # An error that was retriable no longer is, and must not look so to callers.
            self.error = (
                KafkaError(ErrorCode.TRANSACTION_ABORTABLE, f"abort the transaction: {error}")
                if error.retriable
                else error
            )
        self._on_change()

    # --- inside ---

    async def _add_partitions(self) -> None:
        """Sends one request at a time. New partitions wait for the next."""
        try:
            while self._unadded:
                batch = frozenset(self._unadded)
                self._unadded.clear()
                await requests.add_partitions(self._cluster, self._settings, self.identity, batch)
                self._partitions |= batch
                self._on_change()
        except KafkaError as error:
            # The coordinator may have added them, with only the response lost.
            self._must_renumber = self._must_renumber or error.retriable
            self.fail(error)
        finally:
            self._adding = None

    async def _end_at_coordinator(self, timeout_ms: float | None) -> None:
        # The cluster may have switched protocols: the next transaction follows.
        ended, self.is_second_protocol = await requests.end(
            self._cluster,
            self._settings,
            self.identity,
            committed=self._state is State.COMMITTING,
            second_protocol=self.is_second_protocol,
            timeout_ms=timeout_ms,
        )
        self._partitions.clear()
        self._groups.clear()
        if ended is not None:
            self.identity = ended
            self._must_renumber = False

    async def _ask_for_identity(
        self, current: ProducerIdentity, timeout_ms: float | None = None
    ) -> None:
        self.identity, self.is_second_protocol = await requests.init(
            self._cluster, self._settings, current, timeout_ms=timeout_ms
        )
        self._must_renumber = False

    def _forget(self) -> None:
        self.error = None
        self._partitions.clear()
        self._groups.clear()

    def _require(self, target: State) -> None:
        if self._state is State.FENCED and self.error is not None:
            raise self.error
        if self._state not in _ALLOWED[target]:
            raise self._out_of_turn()

    def _move(self, target: State) -> None:
        self._require(target)
        self._state = target

    def _out_of_turn(self) -> RuntimeError:
        return RuntimeError(f"the transaction of {self.transactional_id!r} is {self._state.value}")
