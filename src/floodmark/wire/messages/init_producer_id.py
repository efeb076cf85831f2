"""InitProducerId (API key 22), versions 0 to 5.

Gives a producer its id and epoch, and ends what its transactional id left open.
v6 (two-phase commit, KIP-939) is not stable in Kafka 4.3 and is left out.

- v1: the broker answers before it throttles.
- v2: flexible.
- v3: a producer may ask for a higher epoch of its own id (KIP-360).
- v4: PRODUCER_FENCED may be answered.
- v5: TRANSACTION_ABORTABLE may be answered (KIP-890).
"""

from floodmark.wire.api_keys import ApiKey
from floodmark.wire.schema import int16, int32, int64, message, string


@message(ApiKey.INIT_PRODUCER_ID, "request", versions="0-5", flexible="2+")
class InitProducerIdRequest:
    transactional_id: str | None = string(nullable="0+")
    transaction_timeout_ms: int = int32()
    producer_id: int = int64("3+", default=-1)
    producer_epoch: int = int16("3+", default=-1)


@message(ApiKey.INIT_PRODUCER_ID, "response", versions="0-5", flexible="2+")
class InitProducerIdResponse:
    throttle_time_ms: int = int32()
    error_code: int = int16()
    producer_id: int = int64(default=-1)
    producer_epoch: int = int16()
