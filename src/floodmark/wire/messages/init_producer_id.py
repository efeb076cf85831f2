"""InitProducerId (API key 22), versions 0 to 5."""

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
