"""The well-behaved client beside the fuzz: it must not notice anything."""

from __future__ import annotations

import asyncio
import time

from floodmark.client.cluster.connection import Connection
from floodmark.records.record import Record, decode_records, encode_batch
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from floodmark.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

TOPIC_IDS_SINCE_FETCH = 13
TOPIC_IDS_SINCE_PRODUCE = 13
PAUSE_S = 0.02


class Witness:
    """Produces and fetches, over one connection that must live through the whole run."""

    def __init__(self, connection: Connection, topic: str) -> None:
        self._connection = connection
        self._topic = topic
        self._stop = asyncio.Event()
        self.rounds = 0
        self.slowest_s = 0.0

    def stop(self) -> None:
        self._stop.set()

    async def watch(self) -> None:
        while not self._stop.is_set():
            begin = time.monotonic()
            await self._round()
            self.slowest_s = max(self.slowest_s, time.monotonic() - begin)
            self.rounds += 1
            try:
                await asyncio.wait_for(self._stop.wait(), PAUSE_S)
            except TimeoutError:
                continue

    async def _round(self) -> None:
        value = f"witness {self.rounds}".encode()
        base_offset = await self._produce(value)
        assert base_offset == self.rounds, "a record of the witness got another's offset"
        assert await self._fetch(base_offset) == value

    async def _produce(self, value: bytes) -> int:
        batch = encode_batch([Record(0, int(time.time() * 1000), None, value, [])])
        partition = PartitionProduceData(index=0, records=bytes(batch))
        request = ProduceRequest(
            acks=-1,
            timeout_ms=30_000,
            topic_data=[TopicProduceData(name=self._topic, partition_data=[partition])],
        )
        answer = await self._connection.request(request, max_version=TOPIC_IDS_SINCE_PRODUCE - 1)
        result = answer.responses[0].partition_responses[0]
        assert result.error_code == ErrorCode.NONE
        return int(result.base_offset)

    async def _fetch(self, offset: int) -> bytes | None:
        partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1_000_000)
        request = FetchRequest(
            max_wait_ms=1000,
            min_bytes=1,
            topics=[FetchTopic(topic=self._topic, partitions=[partition])],
        )
        answer = await self._connection.request(request, max_version=TOPIC_IDS_SINCE_FETCH - 1)
        result = answer.responses[0].partitions[0]
        assert result.error_code == ErrorCode.NONE
        return decode_records(result.records)[0].value
