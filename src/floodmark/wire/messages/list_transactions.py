"""ListTransactions (API key 66), versions 0 to 2.

Lists the transactions of a coordinator.

- v1: filter by duration (KIP-994).
- v2: filter by a pattern of transactional ids (KIP-1152).
"""

from floodmark.wire.api_keys import ApiKey
from floodmark.wire.schema import array, int16, int32, int64, message, string, struct


@message(ApiKey.LIST_TRANSACTIONS, "request", versions="0-2", flexible="0+")
class ListTransactionsRequest:
    state_filters: list[str] = array("string")
    producer_id_filters: list[int] = array("int64")
    duration_filter: int = int64("1+", default=-1)
    transactional_id_pattern: str | None = string("2+", nullable="2+", default=None)


@struct
class TransactionState:
    transactional_id: str = string()
    producer_id: int = int64()
    transaction_state: str = string()


@message(ApiKey.LIST_TRANSACTIONS, "response", versions="0-2", flexible="0+")
class ListTransactionsResponse:
    throttle_time_ms: int = int32()
    error_code: int = int16()
    unknown_state_filters: list[str] = array("string")
    transaction_states: list[TransactionState] = array(TransactionState)
