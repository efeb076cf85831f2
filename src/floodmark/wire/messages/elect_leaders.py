"""ElectLeaders (API key 43), versions 0 to 2.

Elects the preferred leaders of partitions, or unclean ones.

- v1: the type of election; error code for the whole response (KIP-460).
- v2: flexible.
"""

from floodmark.wire.api_keys import ApiKey
from floodmark.wire.schema import array, int8, int16, int32, message, string, struct


@struct
class TopicPartitions:
    topic: str = string()
    partitions: list[int] = array("int32")


@message(ApiKey.ELECT_LEADERS, "request", versions="0-2", flexible="2+")
class ElectLeadersRequest:
    election_type: int = int8("1+")
    topic_partitions: list[TopicPartitions] | None = array(TopicPartitions, nullable="0+")
    timeout_ms: int = int32(default=60000)


@struct
class PartitionResult:
    partition_id: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")


@struct
class ReplicaElectionResult:
    topic: str = string()
    partition_result: list[PartitionResult] = array(PartitionResult)


@message(ApiKey.ELECT_LEADERS, "response", versions="0-2", flexible="2+")
class ElectLeadersResponse:
    throttle_time_ms: int = int32()
    error_code: int = int16("1+")
    replica_election_results: list[ReplicaElectionResult] = array(ReplicaElectionResult)
