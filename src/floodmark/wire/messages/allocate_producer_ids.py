"""AllocateProducerIds (API key 67), version 0.

A broker takes a block of producer ids from the controller.
"""

from floodmark.wire.api_keys import ApiKey
from floodmark.wire.schema import int16, int32, int64, message


@message(ApiKey.ALLOCATE_PRODUCER_IDS, "request", versions="0", flexible="0+")
class AllocateProducerIdsRequest:
    broker_id: int = int32()
    broker_epoch: int = int64(default=-1)


@message(ApiKey.ALLOCATE_PRODUCER_IDS, "response", versions="0", flexible="0+")
class AllocateProducerIdsResponse:
    throttle_time_ms: int = int32()
    error_code: int = int16()
    producer_id_start: int = int64()
    producer_id_len: int = int32()
