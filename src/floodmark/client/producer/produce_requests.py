"""Builds produce requests and reads the outcome of each batch from the response.

Called by `sender.py`.
"""

from __future__ import annotations

from collections.abc import Sequence

from floodmark.client.cluster.cluster import Cluster
from floodmark.client.cluster.connection import Connection
from floodmark.client.cluster.view import ClusterView, TopicPartition
from floodmark.client.errors import KafkaError
from floodmark.client.producer.batch import ProducerBatch
from floodmark.client.producer.partition_queue import ProducerIdentity
from floodmark.client.settings import ProducerSettings
from floodmark.records.compression import Compression
from floodmark.records.record import encode_batch
from floodmark.vocabulary import NO_SEQUENCE
from floodmark.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from floodmark.wire.schema import ZERO_UUID

# The first version that identifies topics by id.
FIRST_VERSION_WITH_TOPIC_IDS = 13
# The first version that adds partitions to the transaction implicitly (KIP-890).
FIRST_VERSION_OF_SECOND_PROTOCOL = 12

Appended = tuple[int, int]
"""The base offset, and the log-append time or -1."""


def encode_batch_of(
    batch: ProducerBatch, identity: ProducerIdentity, settings: ProducerSettings
) -> bytearray:
    return encode_batch(
        batch.records,
        compression=Compression[settings.compression_type.upper()],
        producer_id=identity.producer_id,
        producer_epoch=identity.producer_epoch,
        base_sequence=NO_SEQUENCE if batch.base_sequence is None else batch.base_sequence,
        is_transactional=settings.transactional_id is not None,
    )


def produce_request(
    view: ClusterView,
    connection: Connection,
    batches: Sequence[ProducerBatch],
    settings: ProducerSettings,
    *,
    second_protocol: bool = True,
) -> tuple[ProduceRequest, int | None]:
    """The request and its maximum version.

    Unknown topic ids require a version with names. Transactions of the first protocol must not use
    a version that implies the second.
    """
    by_topic: dict[str, list[PartitionProduceData]] = {}
    for batch in batches:
        records = None if batch.encoded is None else memoryview(batch.encoded)
        data = PartitionProduceData(index=batch.partition.partition, records=records)
        by_topic.setdefault(batch.partition.topic, []).append(data)
    max_version = None
    if any(view.topic_id(topic) == ZERO_UUID for topic in by_topic):
        max_version = FIRST_VERSION_WITH_TOPIC_IDS - 1
    if not second_protocol:
        max_version = FIRST_VERSION_OF_SECOND_PROTOCOL - 1
    by_id = connection.version_for(ProduceRequest, max_version) >= FIRST_VERSION_WITH_TOPIC_IDS
    topics = [
        TopicProduceData(
            name="" if by_id else topic,
            topic_id=view.topic_id(topic) if by_id else ZERO_UUID,
            partition_data=partitions,
        )
        for topic, partitions in by_topic.items()
    ]
    request = ProduceRequest(
        transactional_id=settings.transactional_id,
        acks=settings.required_acks,
        timeout_ms=settings.request_timeout_ms,
        topic_data=topics,
    )
    return request, max_version


def read_answers(
    cluster: Cluster, response: ProduceResponse
) -> dict[TopicPartition, Appended | KafkaError]:
    """The outcome of each partition's batch. Also learns new leaders from the response."""
    answers: dict[TopicPartition, Appended | KafkaError] = {}
    for topic in response.responses:
        name = topic.name or cluster.view.topic_name(topic.topic_id) or ""
        for answer in topic.partition_responses:
            partition = TopicPartition(name, answer.index)
            answers[partition] = _outcome(answer)
            if answer.error_code:
                cluster.learn_leader(partition, answer.current_leader, response.node_endpoints)
    return answers


def _outcome(answer: PartitionProduceResponse) -> Appended | KafkaError:
    if answer.error_code == 0:
        return answer.base_offset, answer.log_append_time_ms
    reasons = [item.batch_index_error_message for item in answer.record_errors]
    # The batch message gives the number of refused records; a record message gives the reason.
    texts = (answer.error_message, next((reason for reason in reasons if reason), None))
    return KafkaError(answer.error_code, ": ".join(text for text in texts if text))
