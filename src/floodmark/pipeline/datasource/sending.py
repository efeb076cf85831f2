"""Sends encoded record batches: idempotently, or in a transaction.

Called by `writing.py` in Spark's workers. The client's producer collects single records, which
would cost more than the rest of a sink. Requests and transactions are the client's own.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import Mapping

from floodmark.client.cluster.cluster import Cluster
from floodmark.client.cluster.view import TopicPartition
from floodmark.client.consumer.group_offsets import GroupMetadata, OffsetAndMetadata
from floodmark.client.errors import KafkaError, raise_for_code
from floodmark.client.producer import transaction_requests
from floodmark.client.producer.partition_queue import ProducerIdentity
from floodmark.client.producer.produce_requests import Appended, read_answers
from floodmark.client.settings import ProducerSettings
from floodmark.pipeline.datasource.encoding import ProducerStamp, halved
from floodmark.records.batch import add_sequence
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from floodmark.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)

# Since version 12, a produce adds its partition to the transaction implicitly (KIP-890). We use the
# first protocol, which every broker supports: one code path, and few requests per task.
_LAST_PRODUCE_OF_FIRST_PROTOCOL = 11


class BatchSender:
    """One producer.

    With a transactional id, everything from `begin` to `end` is one transaction.
    """

    def __init__(self, cluster: Cluster, settings: ProducerSettings) -> None:
        self._cluster = cluster
        self._settings = settings
        self._identity = ProducerIdentity()
        self._sequences: dict[TopicPartition, int] = defaultdict(int)
        self._added: set[TopicPartition] = set()
        self._has_offsets = False

    @property
    def is_transactional(self) -> bool:
        return self._settings.transactional_id is not None

    @property
    def stamp(self) -> ProducerStamp:
        identity = self._identity
        return ProducerStamp(identity.producer_id, identity.producer_epoch, self.is_transactional)

    async def begin(self) -> None:
        """Gets a producer id. A transactional one also ends an earlier attempt's transaction."""
        if self.is_transactional:
            self._identity, _ = await transaction_requests.init(
                self._cluster, self._settings, ProducerIdentity()
            )
            return

        async def attempt() -> ProducerIdentity:
            response: InitProducerIdResponse = await self._cluster.request(
                InitProducerIdRequest(
                    transactional_id=None,
                    transaction_timeout_ms=self._settings.request_timeout_ms,
                )
            )
            raise_for_code(response.error_code)
            return ProducerIdentity(response.producer_id, response.producer_epoch)

        self._identity = await self._cluster.retry(attempt, what="getting a producer id")

    def take_sequence(self, partition: TopicPartition, count: int) -> int:
        """The sequence number of the next batch's first record."""
        sequence = self._sequences[partition]
        self._sequences[partition] = add_sequence(sequence, count)
        return sequence

    async def send(self, batches: Mapping[TopicPartition, bytearray]) -> None:
        """Sends one batch per partition until all are acknowledged. Sequences identify repeats."""
        if self.is_transactional and (new := batches.keys() - self._added):
            await transaction_requests.add_partitions(
                self._cluster, self._settings, self._identity, new
            )
            self._added |= new
        left = {partition: deque([batch]) for partition, batch in batches.items()}

        async def attempt() -> None:
            while left:
                await self._cluster.topics_of({partition.topic for partition in left})
                heads = {partition: queue[0] for partition, queue in left.items()}
                for partition, outcome in (await self._send_once(heads)).items():
                    _settle(left[partition], partition, outcome)
                    if not left[partition]:
                        del left[partition]

        await self._cluster.retry(
            attempt, timeout_ms=self._settings.delivery_timeout_ms, what="writing to the topic"
        )

    async def _send_once(
        self, batches: Mapping[TopicPartition, bytearray]
    ) -> dict[TopicPartition, Appended | KafkaError]:
        by_leader: dict[int, dict[TopicPartition, bytearray]] = defaultdict(dict)
        for partition, batch in batches.items():
            by_leader[self._cluster.leader_of(partition)][partition] = batch
        # Waits for all of them: a request that outlives its attempt could arrive after the end of
        # the transaction.
        answers = await asyncio.gather(
            *(self._send_to(leader, share) for leader, share in by_leader.items()),
            return_exceptions=True,
        )
        outcomes: dict[TopicPartition, Appended | KafkaError] = {}
        for answer in answers:
            if isinstance(answer, BaseException):
                raise answer
            outcomes |= answer
        return outcomes

    async def _send_to(
        self, leader: int, batches: Mapping[TopicPartition, bytearray]
    ) -> dict[TopicPartition, Appended | KafkaError]:
        connection = await self._cluster.connection_to(leader)
        topics: dict[str, list[PartitionProduceData]] = defaultdict(list)
        for partition, batch in batches.items():
            topics[partition.topic].append(
                PartitionProduceData(index=partition.partition, records=memoryview(batch))
            )
        request = ProduceRequest(
            transactional_id=self._settings.transactional_id,
            acks=self._settings.required_acks,
            timeout_ms=self._settings.request_timeout_ms,
            topic_data=[
                TopicProduceData(name=name, partition_data=data) for name, data in topics.items()
            ],
        )
        response: ProduceResponse = await connection.request(
            request, max_version=_LAST_PRODUCE_OF_FIRST_PROTOCOL
        )
        return read_answers(self._cluster, response)

    async def add_offset(
        self, group_id: str, partition: TopicPartition, offset: OffsetAndMetadata
    ) -> None:
        """Commits a group's offset with the transaction."""
        arguments = (self._cluster, self._settings, self._identity)
        await transaction_requests.add_group(*arguments, group_id)
        self._has_offsets = True
        await transaction_requests.commit_group_offsets(
            *arguments, GroupMetadata(group_id), {partition: offset}, second_protocol=False
        )

    async def end(self, *, committed: bool) -> None:
        if self.is_transactional and (self._added or self._has_offsets):
            await transaction_requests.end(
                self._cluster,
                self._settings,
                self._identity,
                committed=committed,
                second_protocol=False,
            )


def _settle(
    queue: deque[bytearray], partition: TopicPartition, outcome: Appended | KafkaError
) -> None:
    """Removes the first batch from the queue, or splits it if the topic accepts only smaller ones.

    Java's producer does the same, but its batches are smaller to begin with.
    """
    if isinstance(outcome, KafkaError) and outcome.code is not ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
        halves = halved(queue[0]) if outcome.code is ErrorCode.MESSAGE_TOO_LARGE else []
        if not halves:
            raise _explained(partition, outcome)
        queue.popleft()
        queue.extendleft(reversed(halves))
    else:
        queue.popleft()


def _explained(partition: TopicPartition, error: KafkaError) -> KafkaError:
    hints = {
        ErrorCode.MESSAGE_TOO_LARGE: "a single row exceeds the topic's max.message.bytes: "
        "raise that, or make the row smaller",
        ErrorCode.PRODUCER_FENCED: "another attempt of the same task took over",
        ErrorCode.INVALID_PRODUCER_EPOCH: "another attempt of the same task took over",
        ErrorCode.INVALID_RECORD: "a compacted topic does not accept rows without a key",
    }
    hint = hints.get(error.code)
    return KafkaError(error.code, f"{partition}: {error.text}" + (f" ({hint})" if hint else ""))
