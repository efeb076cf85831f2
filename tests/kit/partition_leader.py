"""A partition leader for a scripted broker, and what the producer's tests share."""

from collections.abc import Callable
from typing import Any

from floodmark.client.producer.batch import RecordMetadata
from floodmark.client.producer.producer import Producer
from floodmark.client.settings import ProducerSettings
from floodmark.records.batch import BatchHeader, read_header
from floodmark.records.record import decode_records
from floodmark.wire.api_keys import ApiKey
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages.init_producer_id import InitProducerIdResponse
from floodmark.wire.messages.produce import (
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)


class Leader:
    """Checks sequences as a partition leader does and keeps what it appended."""

    def __init__(self, scripted: Any) -> None:
        self.logs: dict[int, list[bytes | None]] = {}
        self.headers: list[BatchHeader] = []
        # Error codes for the next batches, before anything is checked; None lets one pass.
        self.errors: list[ErrorCode | None] = []
        self._next: dict[tuple[int, int, int], int] = {}
        scripted.on[ApiKey.PRODUCE] = self.produce
        scripted.on[ApiKey.INIT_PRODUCER_ID] = lambda *_: InitProducerIdResponse(
            producer_id=77, producer_epoch=0
        )

    def produce(self, request: Any, _version: int) -> ProduceResponse:
        responses = []
        for topic in request.topic_data:
            answers = [self._append(p.index, bytes(p.records)) for p in topic.partition_data]
            responses.append(
                TopicProduceResponse(
                    name=topic.name, topic_id=topic.topic_id, partition_responses=answers
                )
            )
        return ProduceResponse(responses=responses)

    def _append(self, index: int, data: bytes) -> PartitionProduceResponse:
        header = read_header(data)
        self.headers.append(header)
        error = self.errors.pop(0) if self.errors else None
        log = self.logs.setdefault(index, [])
        if error is None and header.producer_id >= 0:
            key = (index, header.producer_id, header.producer_epoch)
            if header.base_sequence != self._next.get(key, 0):
                error = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
            else:
                self._next[key] = header.base_sequence + header.records_count
        if error is not None:
            return PartitionProduceResponse(index=index, error_code=error)
        base_offset = len(log)
        log += [record.value for record in decode_records(data)]
        return PartitionProduceResponse(index=index, base_offset=base_offset)


def quick(**settings: Any) -> ProducerSettings:
    return ProducerSettings(**{"linger_ms": 0, "retry_backoff_ms": 1, **settings})


async def send_numbers(
    producer: Producer, count: int, after_each: Callable[[], Any] | None = None
) -> list[RecordMetadata]:
    deliveries = []
    for number in range(count):
        deliveries.append(await producer.send("t", b"%d" % number))
        if after_each is not None:
            await after_each()
    return [await delivery for delivery in deliveries]
