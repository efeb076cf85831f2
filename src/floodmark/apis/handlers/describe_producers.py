"""DescribeProducers (key 61), version 0: the idempotent producers a partition remembers."""

from __future__ import annotations

from floodmark.apis.access import Access, each_topic
from floodmark.apis.authorizer import Operation
from floodmark.apis.context import RequestContext
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)

ACCESS = Access(each=(each_topic(Operation.READ),))


def handle(context: RequestContext, request: DescribeProducersRequest) -> DescribeProducersResponse:
    """Answers each partition once, because it may have thousands of producers."""
    wanted: dict[str, dict[int, None]] = {}
    for topic in request.topics:
        wanted.setdefault(topic.name, {}).update(dict.fromkeys(topic.partition_indexes))
    return DescribeProducersResponse(
        topics=[
            TopicResponse(
                name=name, partitions=[_partition(context, name, index) for index in indexes]
            )
            for name, indexes in wanted.items()
        ]
    )


def _partition(context: RequestContext, topic: str, partition: int) -> PartitionResponse:
    def refuse(error_code: ErrorCode) -> PartitionResponse:
        return PartitionResponse(
            partition_index=partition, error_code=error_code, error_message=error_code.message
        )

    key = (topic, partition)
    if topic not in context.services.image.topics:
        return refuse(context.services.why_unknown(topic))
    replica = context.services.replicas.find(key)
    if replica is None:
        return refuse(context.services.replicas.missing(key))
    if not replica.core.is_leader:
        return refuse(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    return PartitionResponse(
        partition_index=partition,
        active_producers=[
            ProducerState(
                producer_id=producer.producer_id,
                producer_epoch=producer.producer_epoch,
                last_sequence=producer.last_sequence,
                last_timestamp=producer.last_timestamp,
                coordinator_epoch=producer.coordinator_epoch,
                current_txn_start_offset=producer.transaction_first_offset,
            )
            for producer in replica.log.producers.entries.values()
        ],
    )
