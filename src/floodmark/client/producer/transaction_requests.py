"""Requests of a transactional producer to its coordinators, in both transaction protocols.

Called by `transactions.py`. Each call retries for up to `max.block.ms`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from typing import TypeVar

from floodmark.client.cluster.cluster import Cluster, CoordinatorType
from floodmark.client.cluster.connection import Connection
from floodmark.client.cluster.coordinator_requests import ask_coordinator
from floodmark.client.cluster.fan_out import group_by_topic
from floodmark.client.cluster.view import TopicPartition
from floodmark.client.consumer.group_offsets import GroupMetadata, Offsets, commit_entries
from floodmark.client.errors import KafkaError, raise_for_code
from floodmark.client.producer.partition_queue import ProducerIdentity
from floodmark.client.settings import ProducerSettings
from floodmark.wire.api_keys import ApiKey
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages.add_offsets_to_txn import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
)
from floodmark.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from floodmark.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from floodmark.wire.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from floodmark.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)

TRANSACTION_FEATURE = "transaction.version"
SECOND_PROTOCOL_LEVEL = 2
# The highest versions for a producer of the first protocol. Later versions imply the second.
FIRST_PROTOCOL_END_TXN = 4
FIRST_PROTOCOL_OFFSET_COMMIT = 4
LAST_ADD_PARTITIONS_FOR_CLIENTS = 3
FIRST_OFFSET_COMMIT_WITH_MEMBER = 3

T = TypeVar("T")


async def init(
    cluster: Cluster,
    settings: ProducerSettings,
    current: ProducerIdentity,
    *,
    timeout_ms: float | None = None,
) -> tuple[ProducerIdentity, bool]:
    """The producer id and epoch, and whether the second protocol applies."""

    async def ask(connection: Connection) -> tuple[ProducerIdentity, bool]:
        response: InitProducerIdResponse = await connection.request(
            InitProducerIdRequest(
                transactional_id=settings.transactional_id,
                transaction_timeout_ms=settings.transaction_timeout_ms,
                producer_id=current.producer_id,
                producer_epoch=current.producer_epoch,
            )
        )
        _raise_for_producer(response.error_code)
        identity = ProducerIdentity(response.producer_id, response.producer_epoch)
        return identity, speaks_second_protocol(connection)

    return await _ask_own(cluster, settings, ask, "init_transactions", timeout_ms)


def speaks_second_protocol(connection: Connection) -> bool:
    level = connection.finalized_features.get(TRANSACTION_FEATURE, 0)
    return level >= SECOND_PROTOCOL_LEVEL and connection.supports(
        ApiKey.END_TXN, FIRST_PROTOCOL_END_TXN + 1
    )


async def add_partitions(
    cluster: Cluster,
    settings: ProducerSettings,
    identity: ProducerIdentity,
    partitions: Collection[TopicPartition],
) -> None:
    """Adds partitions to the transaction, in the first protocol."""
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=settings.transactional_id or "",
        v3_and_below_producer_id=identity.producer_id,
        v3_and_below_producer_epoch=identity.producer_epoch,
        v3_and_below_topics=[
            AddPartitionsToTxnTopic(name=topic, partitions=[p.partition for p in group])
            for topic, group in group_by_topic(partitions).items()
        ],
    )

    async def ask(connection: Connection) -> None:
        response: AddPartitionsToTxnResponse = await connection.request(
            request, max_version=LAST_ADD_PARTITIONS_FOR_CLIENTS
        )
        codes = [
            result.partition_error_code
            for topic in response.results_by_topic_v3_and_below
            for result in topic.results_by_partition
        ]
        # One bad partition fails all. Report its error, not that of those not attempted.
        for code in sorted(codes, key=lambda code: code == ErrorCode.OPERATION_NOT_ATTEMPTED):
            _raise_for_producer(code)

    await _ask_own(cluster, settings, ask, "adding partitions to the transaction")


async def add_group(
    cluster: Cluster, settings: ProducerSettings, identity: ProducerIdentity, group_id: str
) -> None:
    """Adds a group's offsets to the transaction, in the first protocol."""
    request = AddOffsetsToTxnRequest(
        transactional_id=settings.transactional_id or "",
        producer_id=identity.producer_id,
        producer_epoch=identity.producer_epoch,
        group_id=group_id,
    )

    async def ask(connection: Connection) -> None:
        response: AddOffsetsToTxnResponse = await connection.request(request)
        _raise_for_producer(response.error_code)

    await _ask_own(cluster, settings, ask, "adding offsets to the transaction")


async def commit_group_offsets(
    cluster: Cluster,
    settings: ProducerSettings,
    identity: ProducerIdentity,
    group: GroupMetadata,
    offsets: Offsets,
    *,
    second_protocol: bool,
) -> None:
    """Stores pending offsets at the group's coordinator until the transaction ends."""
    request = _offsets_request(settings, identity, group, offsets)

    async def ask(connection: Connection) -> None:
        max_version = None if second_protocol else FIRST_PROTOCOL_OFFSET_COMMIT
        version = connection.version_for(TxnOffsetCommitRequest, max_version)
        if version < FIRST_OFFSET_COMMIT_WITH_MEMBER and group.member_id:
            raise KafkaError(
                ErrorCode.UNSUPPORTED_VERSION,
                f"the broker at {connection.address} cannot fence group members (KIP-447)",
            )
        response: TxnOffsetCommitResponse = await connection.request(request, max_version=version)
        for topic in response.topics:
            for answer in topic.partitions:
                _raise_for_producer(answer.error_code)

    await ask_coordinator(
        cluster,
        CoordinatorType.GROUP,
        group.group_id,
        ask,
        timeout_ms=settings.max_block_ms,
        what=f"sending offsets of group {group.group_id} to the transaction",
    )


async def end(
    cluster: Cluster,
    settings: ProducerSettings,
    identity: ProducerIdentity,
    *,
    committed: bool,
    second_protocol: bool,
    timeout_ms: float | None = None,
) -> tuple[ProducerIdentity | None, bool]:
    """Commits or aborts.

    Returns the next transaction's identity (second protocol only) and whether that transaction
    follows the second protocol.
    """
    request = EndTxnRequest(
        transactional_id=settings.transactional_id or "",
        producer_id=identity.producer_id,
        producer_epoch=identity.producer_epoch,
        committed=committed,
    )

    async def ask(connection: Connection) -> tuple[ProducerIdentity | None, bool]:
        max_version = None if second_protocol else FIRST_PROTOCOL_END_TXN
        response: EndTxnResponse = await connection.request(request, max_version=max_version)
        _raise_for_producer(response.error_code)
        following = speaks_second_protocol(connection)
        if not second_protocol or response.producer_id < 0:
            return None, following
        return ProducerIdentity(response.producer_id, response.producer_epoch), following

    what = "the commit" if committed else "the abort"
    return await _ask_own(cluster, settings, ask, f"{what} of the transaction", timeout_ms)


async def _ask_own(
    cluster: Cluster,
    settings: ProducerSettings,
    ask: Callable[[Connection], Awaitable[T]],
    what: str,
    timeout_ms: float | None = None,
) -> T:
    """Asks the coordinator of the producer's transactional id."""
    return await ask_coordinator(
        cluster,
        CoordinatorType.TRANSACTION,
        settings.transactional_id or "",
        ask,
        timeout_ms=settings.max_block_ms if timeout_ms is None else timeout_ms,
        what=what,
    )


def _raise_for_producer(code: int) -> None:
    # Before PRODUCER_FENCED existed, coordinators used this code.
    if code == ErrorCode.INVALID_PRODUCER_EPOCH:
        code = ErrorCode.PRODUCER_FENCED
    raise_for_code(code)


def _offsets_request(
    settings: ProducerSettings, identity: ProducerIdentity, group: GroupMetadata, offsets: Offsets
) -> TxnOffsetCommitRequest:
    topics = [
        TxnOffsetCommitRequestTopic(name=topic, partitions=entries)
        for topic, entries in commit_entries(offsets, TxnOffsetCommitRequestPartition)
    ]
    return TxnOffsetCommitRequest(
        transactional_id=settings.transactional_id or "",
        group_id=group.group_id,
        producer_id=identity.producer_id,
        producer_epoch=identity.producer_epoch,
        generation_id=group.generation_id,
        member_id=group.member_id,
        group_instance_id=group.group_instance_id,
        topics=topics,
    )
