"""Encodes transactions as records of `__transaction_state`, in Kafka's format. PURE.

Called by `shard.py`. Kafka's `DumpLogSegments --transaction-log-decoder` can read them.
"""

from __future__ import annotations

from typing import Final

from floodmark.coordinators.transactions.states import EMPTY, TransactionState
from floodmark.coordinators.transactions.transaction import Transaction
from floodmark.vocabulary import TopicPartition
from floodmark.wire.compiler import decode
from floodmark.wire.internal.framing import (
    decode_versioned,
    encode_key,
    encode_versioned,
    read_prefix,
)
from floodmark.wire.internal.transaction_log import (
    PartitionsSchema,
    TransactionLogKey,
    TransactionLogValue,
)
from floodmark.wire.schema import DecodeError

TRANSACTION_LOG_TYPE: Final = 0
# Version 1 adds tagged fields for KIP-890.
FLEXIBLE_VERSION: Final = 1
OLDEST_VERSION: Final = 0


def encode_transactional_id(transactional_id: str) -> bytes:
    return encode_key(TransactionLogKey(transactional_id=transactional_id), TRANSACTION_LOG_TYPE)


def encode_transaction(transaction: Transaction, server_version: int) -> bytes:
    """Brokers older than transaction version 1 read only the oldest format. So it is used unless a
    version 2 client needs fields that it lacks."""
    value = TransactionLogValue(
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_status=transaction.state,
        transaction_partitions=_by_topic(transaction),
        transaction_last_update_timestamp_ms=transaction.last_update_ms,
        transaction_start_timestamp_ms=transaction.start_ms,
    )
    if server_version == 0 and transaction.client_version == 0:
        return encode_versioned(value, OLDEST_VERSION)
    value.previous_producer_id = transaction.previous_producer_id
    value.next_producer_id = transaction.next_producer_id
    value.client_transaction_version = transaction.client_version
    return encode_versioned(value, FLEXIBLE_VERSION)


def decode_transactional_id(key: bytes) -> str | None:
    """None if the record has an unknown, newer type."""
    if read_prefix(key) != TRANSACTION_LOG_TYPE:
        return None
    return decode(TransactionLogKey, key, 0, 2).transactional_id


def decode_transaction(transactional_id: str, value: bytes) -> Transaction | None:
    """None if the record has an unknown, newer version."""
    if not OLDEST_VERSION <= read_prefix(value) <= FLEXIBLE_VERSION:
        return None
    stored = decode_versioned(TransactionLogValue, value)
    return Transaction(
        transactional_id,
        producer_id=stored.producer_id,
        timeout_ms=stored.transaction_timeout_ms,
        last_update_ms=stored.transaction_last_update_timestamp_ms,
        previous_producer_id=stored.previous_producer_id,
        next_producer_id=stored.next_producer_id,
        producer_epoch=stored.producer_epoch,
        state=_state(stored.transaction_status),
        partitions=_flat(stored.transaction_partitions),
        start_ms=stored.transaction_start_timestamp_ms,
        client_version=stored.client_transaction_version,
    )


def _state(status: int) -> TransactionState:
    try:
        return TransactionState(status)
    except ValueError as problem:
        raise DecodeError(f"a transaction has no state {status}") from problem


def _by_topic(transaction: Transaction) -> list[PartitionsSchema] | None:
    """As in Kafka, an empty transaction has no list at all."""
    if transaction.state is EMPTY:
        return None
    topics: dict[str, list[int]] = {}
    for topic, partition in transaction.partitions:
        topics.setdefault(topic, []).append(partition)
    return [
        PartitionsSchema(topic=topic, partition_ids=partitions)
        for topic, partitions in topics.items()
    ]


def _flat(topics: list[PartitionsSchema] | None) -> frozenset[TopicPartition]:
    if not topics:
        return frozenset()
    return frozenset(
        (entry.topic, partition) for entry in topics for partition in entry.partition_ids
    )
