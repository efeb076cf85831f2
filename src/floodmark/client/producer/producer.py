"""The producer: collects records into batches, sends them to leaders, reports each delivery.

For users, the CLI and pipelines. `send` adds a record to the open batch of its partition's queue.
`sender.py` runs in the background and takes batches that are full or have lingered long enough.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Self

from floodmark.client.cluster.cluster import Cluster
from floodmark.client.cluster.view import TopicPartition, TopicView
from floodmark.client.consumer.group_offsets import GroupMetadata, Offsets
from floodmark.client.errors import ClientClosed, KafkaError, RequestTimedOut
from floodmark.client.producer.batch import Delivery, RecordMetadata, record_size_bytes
from floodmark.client.producer.partition_queue import PartitionQueue
from floodmark.client.producer.partitioner import StickyPartitioner, partition_for_key
from floodmark.client.producer.payload import (
    check_partition,
    check_timestamp,
    check_topic,
    checked_headers,
    payload,
)
from floodmark.client.producer.sender import Sender
from floodmark.client.producer.transactions import Transactions
from floodmark.client.settings import ProducerSettings
from floodmark.records.batch import HEADER_BYTES
from floodmark.records.record import Header, Record
from floodmark.vocabulary import NO_LEADER
from floodmark.wire.errors import ErrorCode

logger = logging.getLogger(__name__)

# How long a cancelled producer tries to abort its transaction.
HURRIED_ABORT_MS = 1_000


class Producer:
    """Use it with `async with Producer("127.0.0.1:9092") as producer`."""

    def __init__(
        self,
        bootstrap: str | Sequence[str] | Cluster,
        settings: ProducerSettings | None = None,
    ) -> None:
        self.settings = settings or ProducerSettings()
        self._owns_cluster = not isinstance(bootstrap, Cluster)
        self.cluster = (
            bootstrap if isinstance(bootstrap, Cluster) else Cluster(bootstrap, self.settings)
        )
        self._sticky = StickyPartitioner()
        self._queues: dict[TopicPartition, PartitionQueue] = {}
        self._sender = Sender(self.cluster, self.settings, self._queues)
        self._topics: set[str] = set()
        self._used_bytes = 0
        self._space = asyncio.Event()
        self._closed = False

    async def __aenter__(self) -> Self:
        await self.cluster.connect()
        return self

    async def __aexit__(self, exc_type: type[BaseException] | None, *exc_info: object) -> None:
        # A cancelled caller wants to leave, not wait for a broker that may be gone.
        cancelled = exc_type is not None and issubclass(exc_type, asyncio.CancelledError)
        await self.close(flush=not cancelled)

    async def send(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        partition: int | None = None,
        headers: Iterable[Header] = (),
        timestamp_ms: int | None = None,
    ) -> Delivery:
        """Queues a record. Waits only for metadata and for space in `buffer.memory`.

            delivery = await producer.send("orders", b"two apples", key=b"ann")
            ...
            metadata = await delivery  # partition, offset and timestamp, or a KafkaError

        Keys, values and header values are bytes or None; anything else raises a TypeError. With a
        transactional id, the record joins the open transaction.
        """
        if self._closed or self._sender.transactions is not None:
            self._require_open()
        key, value = payload("the key", key), payload("the value", value)
        record_headers = checked_headers(headers) if headers else []
        if timestamp_ms is not None:
            check_timestamp(timestamp_ms)
        size_bytes = record_size_bytes(key, value, record_headers)
        self._check_size(size_bytes)
        # A broker that has just started may not know a topic for a moment.
        if topic not in self._topics or topic not in self.cluster.view.topics:
            check_topic(topic)
            await self.cluster.topics_of([topic], timeout_ms=self.settings.max_block_ms)
            self._topics.add(topic)
            self._require_open()
        if partition is not None and partition not in self.cluster.view.topics[topic].partitions:
            check_partition(partition)
            # It may have been added since the last refresh.
            await self.cluster.refresh()
            self._require_open()
        if self._used_bytes + size_bytes > self.settings.buffer_memory:
            await self._wait_for_space(size_bytes)
            self._require_open()
        target = self._choose(topic, key, partition, size_bytes)
        if timestamp_ms is None:
            timestamp_ms = self.cluster.clock.now_ms()
        record = Record(0, timestamp_ms, key, value, record_headers)
        return await self._append(target, record, size_bytes)

    async def send_and_wait(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        partition: int | None = None,
        headers: Iterable[Header] = (),
        timestamp_ms: int | None = None,
    ) -> RecordMetadata:
        """Sends one record and waits for its acknowledgement.

            metadata = await producer.send_and_wait("orders", b"two apples", key=b"ann")
            print(metadata.partition, metadata.offset)

        Waiting for each record is slow. To send many, use `send` and await the deliveries later.
        """
        return await (
            await self.send(
                topic,
                value,
                key=key,
                partition=partition,
                headers=headers,
                timestamp_ms=timestamp_ms,
            )
        )

    async def flush(self) -> None:
        """Sends all queued records now and waits until every outcome is known.

        Does not raise delivery failures; they belong to the deliveries.
        """
        await self._sender.flush()

    # --- transactions ---

    async def init_transactions(self) -> None:
        """Call once before the first transaction.

        Fences older producers of this transactional id and ends their open transaction.
        """
        await self._transactions.initialize()

    def begin_transaction(self) -> None:
        """Starts a transaction. read_committed consumers see all of its records or none."""
        self._transactions.begin()

    async def send_offsets_to_transaction(
        self, offsets: Offsets, group: GroupMetadata | str
    ) -> None:
        """Adds the group's committed offsets to the transaction.

        With a consumer's group metadata, the broker refuses a member that lost its partitions. A
        plain group id commits for a group without members.
        """
        metadata = GroupMetadata(group) if isinstance(group, str) else group
        await self._transactions.add_offsets(metadata, offsets)

    async def commit_transaction(self) -> None:
        """Sends remaining records, then makes the transaction visible.

        After a retriable KafkaError the outcome is unknown: call it again. After any other error,
        abort the transaction.
        """
        self._transactions.require_committable()
        await self._sender.flush()
        self._transactions.begin_commit()
        await self._transactions.end()

    async def abort_transaction(self, *, timeout_ms: float | None = None) -> None:
        """Aborts the transaction. read_committed consumers never see its records."""
        self._transactions.begin_abort()
        self._sender.abandon(
            KafkaError(ErrorCode.TRANSACTION_ABORTABLE, "the transaction was aborted")
        )
        await self._sender.flush()
        await self._transactions.end(timeout_ms=timeout_ms)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        """Runs a block in a transaction: commits at the end, aborts on an exception."""
        self.begin_transaction()
        try:
            yield
            await self.commit_transaction()
        except asyncio.CancelledError:
            await self._abort_open(self._transactions, patient=False)
            raise
        except Exception:
            if self._transactions.may_abort:
                await self.abort_transaction()
            raise

    @property
    def _transactions(self) -> Transactions:
        if self._sender.transactions is None:
            raise ValueError("the producer has no transactional.id: set one to use transactions")
        return self._sender.transactions

    async def close(self, *, flush: bool = True) -> None:
        """Sends remaining records, then stops. Without flush, remaining records fail.

        Aborts an open transaction.
        """
        if self._closed:
            return
        self._closed = True
        try:
            if self._sender.transactions is not None:
                await self._abort_open(self._sender.transactions, patient=flush)
            if flush:
                await self._sender.flush()
        finally:
            await self._sender.stop()
            if self._owns_cluster:
                await self.cluster.close()

    async def partitions_for(self, topic: str) -> list[int]:
        """A topic's partition numbers."""
        view = await self.cluster.topics_of([topic], timeout_ms=self.settings.max_block_ms)
        return sorted(view.topics[topic].partitions)

    async def _abort_open(self, transactions: Transactions, *, patient: bool) -> None:
        """Do not leave a transaction open: readers would wait for it until it times out."""
        if not transactions.may_abort:
            return
        try:
            async with asyncio.timeout(None if patient else HURRIED_ABORT_MS / 1000):
                await self.abort_transaction()
        except (KafkaError, TimeoutError) as error:
            logger.warning(
                "could not abort the open transaction, it will time out: %s", error or "no response"
            )

    def _require_open(self) -> None:
        """Checked again after every wait in `send`: nobody would send the record any more."""
        if self._closed:
            raise ClientClosed("the producer is closed")
        if self._sender.transactions is not None:
            self._sender.transactions.require_open()

    async def _append(self, target: TopicPartition, record: Record, size_bytes: int) -> Delivery:
        queue = self._queues.get(target)
        if queue is None:
            queue = self._queues[target] = PartitionQueue(
                target, batch_size=self.settings.batch_size, idempotent=self.settings.idempotent
            )
        delivery, opened = queue.append(record, size_bytes, self.cluster.clock.monotonic_ms())
        self._used_bytes += size_bytes
        if opened:
            batch = queue.batches[-1]
            batch.on_done(lambda: self._release(batch.size_bytes - HEADER_BYTES))
            self._sender.wake()
            # Yield: a caller that sends in a tight loop would starve the sender.
            await asyncio.sleep(0)
        return delivery

    def _check_size(self, size_bytes: int) -> None:
        limit = min(self.settings.max_request_size, self.settings.buffer_memory)
        if size_bytes > limit:
            raise KafkaError(
                ErrorCode.MESSAGE_TOO_LARGE,
                f"the record takes {size_bytes} bytes, more than max.request.size or "
                f"buffer.memory ({limit}) allows",
            )

    def _choose(
        self, topic: str, key: bytes | None, partition: int | None, size_bytes: int
    ) -> TopicPartition:
        view = self.cluster.view.topics.get(topic)
        if view is None:
            raise KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {topic} no longer exists"
            )
        if partition is not None:
            if partition not in view.partitions:
                raise KafkaError(
                    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                    f"topic {topic} has no partition {partition}, "
                    f"only 0 to {len(view.partitions) - 1}",
                )
            return TopicPartition(topic, partition)
        if key is not None:
            return TopicPartition(topic, partition_for_key(key, len(view.partitions)))
        return self._choose_sticky(view, size_bytes)

    def _choose_sticky(self, view: TopicView, size_bytes: int) -> TopicPartition:
        available = [p.partition for p in view.partitions.values() if p.leader != NO_LEADER]
        candidates = available or list(view.partitions)
        target = TopicPartition(view.name, self._sticky.current(view.name, candidates))
        queue = self._queues.get(target)
        if queue is not None and not queue.has_room(size_bytes):
            self._sticky.advance(view.name)
            target = TopicPartition(view.name, self._sticky.current(view.name, candidates))
        return target

    async def _wait_for_space(self, size_bytes: int) -> None:
        """Back-pressure: waits while unsent records fill `buffer.memory`."""
        try:
            async with asyncio.timeout(self.settings.max_block_ms / 1000):
                while self._used_bytes + size_bytes > self.settings.buffer_memory:
                    self._space.clear()
                    self._sender.hurry()
                    await self._space.wait()
        except TimeoutError:
            raise RequestTimedOut(
                f"buffer.memory ({self.settings.buffer_memory} bytes) stayed full for "
                f"{self.settings.max_block_ms} ms: the brokers cannot keep up"
            ) from None

    def _release(self, size_bytes: int) -> None:
        self._used_bytes -= size_bytes
        self._space.set()
