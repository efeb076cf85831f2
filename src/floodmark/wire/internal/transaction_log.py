"""Records of `__transaction_state`: one per transactional id, the last one counts.

Used by the transaction coordinator. Version 1 is flexible and adds, as tags, the producer ids and
the epoch around an epoch overflow and the client's transaction version (KIP-890). The key's record
type is 0.
"""

from floodmark.wire.schema import array, int8, int16, int32, int64, message, string, struct


@message(None, "data", versions="0", flexible=None)
class TransactionLogKey:
    transactional_id: str = string()


@struct
class PartitionsSchema:
    topic: str = string()
    partition_ids: list[int] = array("int32")


@message(None, "data", versions="0-1", flexible="1+")
class TransactionLogValue:
    producer_id: int = int64()
    previous_producer_id: int = int64("1+", default=-1, tag=0)
    next_producer_id: int = int64("1+", default=-1, tag=1)
    producer_epoch: int = int16()
    next_producer_epoch: int = int16("1+", default=-1, tag=3)
    transaction_timeout_ms: int = int32()
    transaction_status: int = int8()
    transaction_partitions: list[PartitionsSchema] | None = array(PartitionsSchema, nullable="0+")
    transaction_last_update_timestamp_ms: int = int64()
    transaction_start_timestamp_ms: int = int64()
    client_transaction_version: int = int16("1+", tag=2)
