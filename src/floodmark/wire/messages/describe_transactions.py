"""DescribeTransactions (API key 65), version 0.

Tells the state of transactional ids.
"""

from floodmark.wire.api_keys import ApiKey
from floodmark.wire.schema import array, int16, int32, int64, message, string, struct


@message(ApiKey.DESCRIBE_TRANSACTIONS, "request", versions="0", flexible="0+")
class DescribeTransactionsRequest:
    transactional_ids: list[str] = array("string")


@struct
class TopicData:
    topic: str = string()
    partitions: list[int] = array("int32")


@struct
class TransactionState:
    error_code: int = int16()
    transactional_id: str = string()
    transaction_state: str = string()
    transaction_timeout_ms: int = int32()
    transaction_start_time_ms: int = int64()
    producer_id: int = int64()
    producer_epoch: int = int16()
    topics: list[TopicData] = array(TopicData)


@message(ApiKey.DESCRIBE_TRANSACTIONS, "response", versions="0", flexible="0+")
class DescribeTransactionsResponse:
    throttle_time_ms: int = int32()
    transaction_states: list[TransactionState] = array(TransactionState)
