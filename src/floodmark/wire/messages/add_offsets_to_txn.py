"""AddOffsetsToTxn (API key 25), versions 0 to 4.

Adds a group's offsets to a transaction.

- v1: the broker answers before it throttles.
- v2: PRODUCER_FENCED may be answered.
- v3: flexible.
- v4: TRANSACTION_ABORTABLE may be answered (KIP-890).
"""

from floodmark.wire.api_keys import ApiKey
from floodmark.wire.schema import int16, int32, int64, message, string


@message(ApiKey.ADD_OFFSETS_TO_TXN, "request", versions="0-4", flexible="3+")
class AddOffsetsToTxnRequest:
    transactional_id: str = string()
    producer_id: int = int64()
    producer_epoch: int = int16()
    group_id: str = string()


@message(ApiKey.ADD_OFFSETS_TO_TXN, "response", versions="0-4", flexible="3+")
class AddOffsetsToTxnResponse:
    throttle_time_ms: int = int32()
    error_code: int = int16()
