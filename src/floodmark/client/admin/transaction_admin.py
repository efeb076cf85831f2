"""Transaction administration: list, describe, and abort hanging ones.

Called by `admin.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from floodmark.client.cluster.cluster import Cluster, CoordinatorType
from floodmark.client.cluster.connection import Connection
from floodmark.client.cluster.coordinator_requests import ask_coordinator
from floodmark.client.cluster.fan_out import ask_brokers
from floodmark.client.cluster.view import TopicPartition
from floodmark.client.errors import KafkaError, raise_for_code
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from floodmark.wire.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from floodmark.wire.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from floodmark.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

# The new owner never begins a transaction, so any timeout will do.
FENCING_TIMEOUT_MS = 1


@dataclass(frozen=True, slots=True)
class TransactionListing:
    transactional_id: str
    producer_id: int
    state: str
    coordinator_id: int


@dataclass(frozen=True, slots=True)
class TransactionDescription:
    """The start time is None when no transaction is open."""

    transactional_id: str
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    start_time_ms: int | None
    coordinator_id: int | None
    partitions: Sequence[TopicPartition]


async def list_transactions(
    cluster: Cluster,
    *,
    states: Iterable[str] = (),
    producer_ids: Iterable[int] = (),
    longer_than_ms: int = -1,
    pattern: str | None = None,
) -> list[TransactionListing]:
    """Lists transactions of all coordinators. Fails if a broker is too old for a filter."""
    request = ListTransactionsRequest(
        state_filters=list(states),
        producer_id_filters=list(producer_ids),
        duration_filter=longer_than_ms,
        transactional_id_pattern=pattern,
    )

    async def ask(connection: Connection) -> list[TransactionListing]:
        response: ListTransactionsResponse = await connection.request(request)
        if response.unknown_state_filters:
            names = ", ".join(response.unknown_state_filters)
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"unknown transaction state {names}")
        raise_for_code(response.error_code)
        broker = cluster.broker_at(connection.address)
        return [
            TransactionListing(
                item.transactional_id,
                item.producer_id,
                item.transaction_state,
                -1 if broker is None else broker.node_id,
            )
            for item in response.transaction_states
        ]

    answers = await ask_brokers(cluster, ask)
    found = [listing for answer in answers for listing in answer]
    return sorted(found, key=lambda listing: listing.transactional_id)


async def describe(
    cluster: Cluster, transactional_ids: Iterable[str]
) -> dict[str, TransactionDescription | KafkaError]:
    async def describe_one(transactional_id: str) -> TransactionDescription | KafkaError:
        async def ask(connection: Connection) -> TransactionDescription:
            response: DescribeTransactionsResponse = await connection.request(
                DescribeTransactionsRequest(transactional_ids=[transactional_id])
            )
            (state,) = response.transaction_states
            raise_for_code(state.error_code)
            broker = cluster.broker_at(connection.address)
            started_ms = state.transaction_start_time_ms
            return TransactionDescription(
                transactional_id,
                state.transaction_state,
                state.producer_id,
                state.producer_epoch,
                state.transaction_timeout_ms,
                started_ms if started_ms >= 0 else None,
                None if broker is None else broker.node_id,
                [TopicPartition(t.topic, index) for t in state.topics for index in t.partitions],
            )

        try:
            return await ask_coordinator(
                cluster, CoordinatorType.TRANSACTION, transactional_id, ask
            )
        except KafkaError as error:
            return error

    wanted = list(dict.fromkeys(transactional_ids))
    answers = await asyncio.gather(*(describe_one(name) for name in wanted))
    return dict(zip(wanted, answers, strict=True))


async def fence(cluster: Cluster, transactional_id: str) -> None:
    """Fences the producer of this transactional id and aborts its open transaction."""

    async def ask(connection: Connection) -> None:
        response: InitProducerIdResponse = await connection.request(
            InitProducerIdRequest(
                transactional_id=transactional_id, transaction_timeout_ms=FENCING_TIMEOUT_MS
            )
        )
        raise_for_code(response.error_code)

    await ask_coordinator(cluster, CoordinatorType.TRANSACTION, transactional_id, ask)


async def abort_hanging(
    cluster: Cluster,
    partition: TopicPartition,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int,
) -> None:
    """Writes an abort marker into one partition, bypassing the coordinator.

    Only for a transaction that no coordinator knows (KIP-664). It would break the atomicity of a
    known one.
    """
    request = WriteTxnMarkersRequest(
        markers=[
            WritableTxnMarker(
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                transaction_result=False,
                coordinator_epoch=coordinator_epoch,
                topics=[
                    WritableTxnMarkerTopic(
                        name=partition.topic, partition_indexes=[partition.partition]
                    )
                ],
            )
        ]
    )

    async def attempt() -> None:
        await cluster.topics_of([partition.topic])
        connection = await cluster.connection_to(cluster.leader_of(partition))
        response: WriteTxnMarkersResponse = await connection.request(request)
        for marker in response.markers:
            for topic in marker.topics:
                for answer in topic.partitions:
                    raise_for_code(answer.error_code)

    await cluster.retry(attempt)
