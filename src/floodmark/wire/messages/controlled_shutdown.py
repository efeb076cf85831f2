"""ControlledShutdown (API key 7), versions 0 to 3.

A broker asks the controller to move its leaders away.
As in Kafka 3.9, the last release that has it.

- v0: its request header has no client id.
- v2: broker epoch.
- v3: flexible.
"""

from floodmark.wire.api_keys import ApiKey
from floodmark.wire.schema import array, int16, int32, int64, message, string, struct


@message(ApiKey.CONTROLLED_SHUTDOWN, "request", versions="0-3", flexible="3+")
class ControlledShutdownRequest:
    broker_id: int = int32()
    broker_epoch: int = int64("2+", default=-1, ignorable=True)


@struct
class RemainingPartition:
    topic_name: str = string()
    partition_index: int = int32()


@message(ApiKey.CONTROLLED_SHUTDOWN, "response", versions="0-3", flexible="3+")
class ControlledShutdownResponse:
    error_code: int = int16()
    remaining_partitions: list[RemainingPartition] = array(RemainingPartition)
