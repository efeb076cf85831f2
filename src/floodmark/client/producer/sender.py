"""The producer's background sender: sends ready batches to their leaders and handles responses.

Belongs to `producer.py`. One task looks for work; each request to a broker runs as its own task.

Requests to a broker go out in the order their batches were taken from the queues. Batches are taken
only while the connection is open, and a request's task writes it before it awaits anything. If a
broker is not connected, a task connects while the batches wait in their queues.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict, deque
from collections.abc import Mapping
from functools import partial

from floodmark.client.cluster.cluster import Cluster
from floodmark.client.cluster.connection import Connection
from floodmark.client.cluster.silent_brokers import LeaderAsked
from floodmark.client.cluster.view import TopicPartition
from floodmark.client.errors import ConnectionFailed, KafkaError, RequestTimedOut
from floodmark.client.producer.batch import ProducerBatch
from floodmark.client.producer.partition_queue import PartitionQueue, ProducerIdentity
from floodmark.client.producer.produce_requests import (
    encode_batch_of,
    produce_request,
    read_answers,
)
from floodmark.client.producer.transactions import Transactions
from floodmark.client.settings import ProducerSettings
from floodmark.vocabulary import NO_LEADER, NO_OFFSET
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)

logger = logging.getLogger(__name__)

# The broker has not appended the batch, so it can be renumbered (KIP-360).
_NUMBERING_CODES = frozenset(
    {
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.INVALID_PRODUCER_EPOCH,
    }
)
NO_TRANSACTION_TIMEOUT_MS = 2**31 - 1
PURPOSE = "produce"


class Sender:
    def __init__(
        self,
        cluster: Cluster,
        settings: ProducerSettings,
        queues: Mapping[TopicPartition, PartitionQueue],
    ) -> None:
        self.transactions = (
            None
            if settings.transactional_id is None
            else Transactions(cluster, settings, on_change=self.wake)
        )
        self._cluster = cluster
        self._settings = settings
        self._queues = queues
        self._identity = ProducerIdentity()
        self._wakeup = asyncio.Event()
        self._hurry = False
        self._flushes = 0
        self._stopped = False
        self._stale = False
        self._loop_task: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        # Brokers whose last request failed, to log each failure only once.
        self._failing: set[int] = set()
        self._requests_to: dict[int, int] = defaultdict(int)
        self._connecting: set[int] = set()
        # Unreachable brokers: the number of consecutive attempts and the last error.
        self._unreachable: dict[int, tuple[int, KafkaError]] = {}
        self._background: asyncio.Task[None] | None = None
        self._background_failures = 0

    def wake(self) -> None:
        """Wakes the sender to look for work."""
        if self._stopped:
            return
        if self._loop_task is None:
            self._loop_task = asyncio.create_task(self._run(), name="floodmark-sender")
        elif self._loop_task.done():
            # It never finishes normally: raise its error to the next caller.
            self._loop_task.result()
        self._wakeup.set()

    def hurry(self) -> None:
        """Stops lingering for queued batches, because a caller waits for space."""
        self._hurry = True
        self.wake()

    async def flush(self) -> None:
        pending = [batch for queue in self._queues.values() for batch in queue.batches]
        if not pending:
            # Callbacks of deliveries that are done run in this turn of the loop.
            await asyncio.sleep(0)
            return
        all_done = asyncio.Event()
        left = len(pending)

        def count_down() -> None:
            nonlocal left
            left -= 1
            if left == 0:
                all_done.set()

        for batch in pending:
            batch.on_done(count_down)
        self._flushes += 1
        try:
            self.wake()
            await all_done.wait()
        finally:
            self._flushes -= 1

    def abandon(self, error: KafkaError) -> None:
        """Fails all waiting batches. Requests in flight run to completion."""
        for queue in self._queues.values():
            for batch in queue.expire(float("inf")):
                self._fail(batch, error)

    async def stop(self) -> None:
        self._stopped = True
        if self.transactions is not None:
            await self.transactions.stop()
        tasks = [t for t in (self._loop_task, self._background, *self._tasks) if t is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        closed = ConnectionFailed("the producer was closed before the record was acknowledged")
        for queue in self._queues.values():
            for batch in queue.batches:
                batch.fail(closed)

    # --- the loop ---

    async def _run(self) -> None:
        while True:
            self._wakeup.clear()
            next_ms = self._dispatch()
            await self._sleep_until(next_ms)

    async def _sleep_until(self, next_ms: float | None) -> None:
        if next_ms is None:
            await self._wakeup.wait()
            return
        delay_ms = next_ms - self._cluster.clock.monotonic_ms()
        if delay_ms <= 0:
            await asyncio.sleep(0)
            return
        try:
            async with asyncio.timeout(delay_ms / 1000):
                await self._wakeup.wait()
        except TimeoutError:
            return

    def _dispatch(self) -> float | None:
        """Sends everything that is ready. Returns when to look again."""
        now_ms = self._cluster.clock.monotonic_ms()
        hurry = self._hurry or self._flushes > 0
        self._hurry = False
        if self.transactions is not None:
            self._identity = self.transactions.identity
            if self.transactions.error is not None:
                self.abandon(self.transactions.error)
        ready: dict[int, list[PartitionQueue]] = defaultdict(list)
        next_ms: float | None = None
        for queue in self._queues.values():
            if queue.is_empty:
                continue
            self._expire(queue, now_ms)
            at_ms = self._ready_at_ms(queue, hurry=hurry)
            if at_ms is None:
                continue
            if at_ms > now_ms:
                next_ms = at_ms if next_ms is None else min(next_ms, at_ms)
            else:
                self._add_to_leader(queue, ready)
        sent = [self._send_to(leader, queues) for leader, queues in ready.items()]
        self._start_background(now_ms)
        # Each pass takes one batch per queue, and there may be more.
        return now_ms if any(sent) else self._next_look_ms(next_ms, now_ms)

    def _ready_at_ms(self, queue: PartitionQueue, *, hurry: bool) -> float | None:
        if self._settings.idempotent:
            if not self._identity.is_known:
                return None
            if queue.can_renumber():
                self._bump_epoch(queue)
                if not self._identity.is_known:
                    return None
            if queue.needs_identity(self._identity):
                queue.begin_epoch(self._identity)
            elif queue.identity != self._identity and not queue.head_is_numbered:
                return None
        if self.transactions is not None and not self.transactions.may_send(queue.partition):
            return None
        return queue.ready_at_ms(self._settings.linger_ms, hurry=hurry)

    def _bump_epoch(self, queue: PartitionQueue) -> None:
        if queue.identity == self._identity:
            self._identity = self._identity.bumped()
        if self._identity.is_known:
            queue.begin_epoch(self._identity)

    def _add_to_leader(self, queue: PartitionQueue, ready: dict[int, list[PartitionQueue]]) -> None:
        try:
            ready[self._cluster.leader_of(queue.partition)].append(queue)
        except KafkaError:
            self._stale = True

    def _next_look_ms(self, next_ms: float | None, now_ms: float) -> float | None:
        """The next linger, retry or expiry time."""
        oldest = min(
            (b.created_ms for queue in self._queues.values() for b in queue.batches[:1]),
            default=None,
        )
        if oldest is None:
            return None
        expiry_ms = max(oldest + self._settings.delivery_timeout_ms, now_ms + 100)
        return expiry_ms if next_ms is None else min(next_ms, expiry_ms)

    def _send_to(self, leader: int, queues: list[PartitionQueue]) -> bool:
        """Sends a batch of each queue, within the limits on size and requests in flight.

        Returns whether it sent any.
        """
        connection = self._cluster.open_connection_to(leader, PURPOSE)
        if connection is None:
            self._connect_to(leader, [queue.partition for queue in queues])
            return False
        limit = self._settings.max_in_flight_requests_per_connection
        waiting = deque(queues)
        while waiting and self._requests_to[leader] < limit:
            batches: list[ProducerBatch] = []
            left_bytes = self._settings.max_request_size
            while waiting and (not batches or waiting[0].head_size_bytes <= left_bytes):
                batch = waiting.popleft().take()
                left_bytes -= batch.size_bytes
                batches.append(batch)
            self._requests_to[leader] += 1
            task = asyncio.create_task(self._exchange(leader, connection, batches))
            self._tasks.add(task)
            task.add_done_callback(partial(self._exchanged, leader, batches))
        return len(waiting) < len(queues)

    def _connect_to(self, leader: int, partitions: list[TopicPartition]) -> None:
        if leader not in self._connecting:
            self._connecting.add(leader)
            task = asyncio.create_task(self._connect(leader, partitions))
            self._tasks.add(task)
            task.add_done_callback(partial(self._connected, leader))

    async def _connect(self, leader: int, partitions: list[TopicPartition]) -> None:
        """Opens the connection, or pauses after a failure.

        Meanwhile batches stay queued until `delivery.timeout.ms` expires or their leader changes.
        """
        try:
            await self._cluster.leader_connection(leader, partitions, PURPOSE)
            self._unreachable.pop(leader, None)
        except KafkaError as error:
            failures = self._unreachable.get(leader, (0, error))[0] + 1
            self._unreachable[leader] = failures, error
            self._tell_of(leader, error)
            if not error.retriable:
                self._refuse_all(leader, error)
            self._stale = self._stale or error.stale_metadata
            self.wake()
            await asyncio.sleep(self._cluster.backoff.delay_ms(failures) / 1000)

    def _connected(self, leader: int, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._connecting.discard(leader)
        if task.cancelled():
            return
        error = task.exception()
        if error is not None:
            self._refuse_all(leader, KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, repr(error)))
        self.wake()

    def _refuse_all(self, leader: int, error: KafkaError) -> None:
        """This broker can never be used: fails everything that waits for it."""
        for queue in self._queues.values():
            if self._leader_of(queue) == leader:
                for batch in queue.expire(float("inf")):
                    self._fail(batch, error)

    def _tell_of(self, leader: int, error: KafkaError) -> None:
        if leader not in self._failing:
            self._failing.add(leader)
            logger.warning("producing to broker %d failed: %s", leader, error)

    def _exchanged(
        self, leader: int, batches: list[ProducerBatch], task: asyncio.Task[None]
    ) -> None:
        """Settles the records of a finished request, even after an unexpected error."""
        self._tasks.discard(task)
        self._requests_to[leader] -= 1
        if task.cancelled():
            return
        error = task.exception()
        if error is not None:
            for batch in batches:
                if not batch.is_done:
                    self._give_up(batch, KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, repr(error)))
        self.wake()

    async def _exchange(
        self, leader: int, connection: Connection, batches: list[ProducerBatch]
    ) -> None:
        try:
            asked = LeaderAsked(leader, [batch.partition for batch in batches], self._cluster.view)
            with self._cluster.silent_brokers.request(asked, connection):
                await self._produce(connection, batches)
            self._failing.discard(leader)
        except KafkaError as error:
            self._tell_of(leader, error)
            for batch in batches:
                self._settle(batch, error)

    async def _produce(self, connection: Connection, batches: list[ProducerBatch]) -> None:
        # Do not await before the request is written: the order of requests depends on it.
        for batch in batches:
            if batch.encoded is None:
                identity = self._queues[batch.partition].identity
                batch.encoded = encode_batch_of(batch, identity, self._settings)
        request, max_version = produce_request(
            self._cluster.view,
            connection,
            batches,
            self._settings,
            second_protocol=self.transactions is None or self.transactions.is_second_protocol,
        )
        if self._settings.acks == 0:
            await connection.send(request, max_version=max_version)
            for batch in batches:
                self._succeed(batch, NO_OFFSET)
            return
        response = await connection.request(request, max_version=max_version)
        answers = read_answers(self._cluster, response)
        for batch in batches:
            answer = answers.get(batch.partition)
            if answer is None:
                self._settle(batch, ConnectionFailed(f"no response for {batch.partition}"))
            elif isinstance(answer, KafkaError):
                self._settle(batch, answer)
            else:
                self._succeed(batch, *answer)

    # --- outcomes ---

    def _succeed(self, batch: ProducerBatch, base_offset: int, append_time_ms: int = -1) -> None:
        self._queues[batch.partition].finished(batch)
        batch.succeed(base_offset, append_time_ms)

    def _settle(self, batch: ProducerBatch, error: KafkaError) -> None:
        """Retries, renumbers, splits or fails the batch."""
        queue = self._queues[batch.partition]
        now_ms = self._cluster.clock.monotonic_ms()
        self._stale = self._stale or error.stale_metadata
        if error.code == ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
            # An earlier attempt appended it, too long ago for the broker to know the offset.
            self._succeed(batch, NO_OFFSET)
        elif error.code == ErrorCode.MESSAGE_TOO_LARGE and len(batch.records) > 1:
            queue.replace_by_halves(batch)
        elif self._may_retry(batch, error, now_ms):
            if error.code in _NUMBERING_CODES and queue.is_oldest(batch):
                queue.needs_new_epoch = True
            delay_ms = self._cluster.delay_ms(error, batch.attempts)
            batch.last_refusal = error
            queue.put_back(batch, now_ms + delay_ms)
        else:
            self._give_up(batch, error)

    def _give_up(self, batch: ProducerBatch, error: KafkaError) -> None:
        self._queues[batch.partition].finished(batch)
        self._fail(batch, error)

    def _fail(self, batch: ProducerBatch, error: KafkaError) -> None:
        if self.transactions is not None:
            self.transactions.lost(error, numbered=batch.base_sequence is not None)
        batch.fail(error)

    def _may_retry(self, batch: ProducerBatch, error: KafkaError, now_ms: float) -> bool:
        if batch.created_ms + self._settings.delivery_timeout_ms < now_ms:
            return False
        if batch.attempts > self._settings.retries:
            return False
        numbering = self._settings.idempotent and error.code in _NUMBERING_CODES
        if self.transactions is not None:
            # A gap after a batch being retried closes by itself. A real gap needs a new epoch,
            # which a transaction gets when it ends.
            numbering = numbering and not self._queues[batch.partition].is_oldest(batch)
            return self.transactions.may_retry and (error.retriable or numbering)
        return error.retriable or numbering

    def _expire(self, queue: PartitionQueue, now_ms: float) -> None:
        for batch in queue.expire(now_ms - self._settings.delivery_timeout_ms):
            self._fail(batch, self._expired(batch, queue))

    def _expired(self, batch: ProducerBatch, queue: PartitionQueue) -> KafkaError:
        """Includes the last failure, which says more than the timeout alone."""
        _, reason = self._unreachable.get(self._leader_of(queue), (0, batch.last_refusal))
        told = f", last error: {reason}" if reason is not None else ""
        count = len(batch.records)
        error = RequestTimedOut(
            f"{count} {'record' if count == 1 else 'records'} for {batch.partition} could not be "
            f"delivered "
            f"in delivery.timeout.ms ({self._settings.delivery_timeout_ms}){told}"
        )
        error.__cause__ = reason
        return error

    def _leader_of(self, queue: PartitionQueue) -> int:
        found = self._cluster.view.partition(queue.partition)
        return NO_LEADER if found is None else found.leader

    # --- metadata and producer id, requested in the background ---

    def _start_background(self, now_ms: float) -> None:
        needs_id = (
            self._settings.idempotent and self.transactions is None and not self._identity.is_known
        )
        if self._background is not None or not (
            needs_id or self._stale or self._cluster.is_old(now_ms)
        ):
            return
        self._background = asyncio.create_task(self._look_after_cluster(needs_id=needs_id))

    async def _look_after_cluster(self, *, needs_id: bool) -> None:
        try:
            self._stale = False
            if needs_id:
                self._identity = await self._init_producer_id()
            else:
                await self._cluster.refresh()
            self._background_failures = 0
        except KafkaError as error:
            if not error.retriable:
                # A permanent failure to get a producer id or metadata: nothing can be sent.
                self.abandon(error)
            self._stale = True
            self._background_failures += 1
        # Even a successful refresh may show the old leader, so always pause.
        delay_ms = self._cluster.backoff.delay_ms(max(1, self._background_failures))
        if self._background_failures or not needs_id:
            self.wake()
            await asyncio.sleep(delay_ms / 1000)
        self._background = None
        self.wake()

    async def _init_producer_id(self) -> ProducerIdentity:
        message = InitProducerIdRequest(
            transactional_id=None, transaction_timeout_ms=NO_TRANSACTION_TIMEOUT_MS
        )
        response: InitProducerIdResponse = await self._cluster.request(message)
        if response.error_code:
            raise KafkaError(response.error_code, "the broker refused a producer id")
        return ProducerIdentity(response.producer_id, response.producer_epoch)
