"""EndTxn (API key 26), versions 0 to 5.

Commits or aborts a transaction.

- v1: the broker answers before it throttles.
- v2: PRODUCER_FENCED may be answered.
- v3: flexible.
- v4: TRANSACTION_ABORTABLE may be answered (KIP-890).
- v5: every transaction gets a new epoch, which the response tells (KIP-890).
"""

from floodmark.wire.api_keys import ApiKey
from floodmark.wire.schema import boolean, int16, int32, int64, message, string


@message(ApiKey.END_TXN, "request", versions="0-5", flexible="3+")
class EndTxnRequest:
    transactional_id: str = string()
    producer_id: int = int64()
    producer_epoch: int = int16()
    committed: bool = boolean()


@message(ApiKey.END_TXN, "response", versions="0-5", flexible="3+")
class EndTxnResponse:
    throttle_time_ms: int = int32()
    error_code: int = int16()
    producer_id: int = int64("5+", default=-1, ignorable=True)
    producer_epoch: int = int16("5+", default=-1, ignorable=True)
