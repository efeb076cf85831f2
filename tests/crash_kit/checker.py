"""Compares what is in the log with what was promised (RELIABILITY, promises 1, 2 and 4)."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from random import Random

from crash_kit.load import Load, Sent
from crash_kit.reader import PartitionReader
from floodmark.client.cluster.connection import Connection
from floodmark.records.record import Record

LOOK_UPS_PER_ROUND = 4
NOT_FOUND = -1


class Checker:
    """Remembers every record it has ever seen: what is at an offset stays there for ever."""

    def __init__(self, topic: str, partitions: int, seed: int) -> None:
        self.topic = topic
        self.partitions = partitions
        self._random = Random(seed)
        self._seen: list[list[Record]] = [[] for _ in range(partitions)]
        # The highest timestamp up to each offset: where it first reaches t is what t looks up.
        self._highest_ms: list[list[int]] = [[] for _ in range(partitions)]
        self._checked_acknowledgements = 0

    @property
    def records(self) -> int:
        return sum(map(len, self._seen))

    async def check_growth(self, ports: Mapping[int, int], load: Load) -> None:
        """What came since the last look: dense, and all that was acknowledged until now.

        `ports` are those of the leaders, by partition.
        """
        acknowledged = load.acknowledged(self._checked_acknowledgements)
        for partition, seen in enumerate(self._seen):
            async with self._reader(partition, ports) as reader:
                end = await reader.end_offset()
                assert end >= len(seen), f"partition {partition} shrank to {end} from {len(seen)}"
                self._take(partition, await reader.read(len(seen), end))
                await self._check_look_ups(reader, partition)
        for partition, offset, sent in acknowledged:
            if offset is None:
                self._check_by_number(partition, sent)
                continue
            assert offset < len(self._seen[partition]), f"lost {sent} at {partition}/{offset}"
            found = self._seen[partition][offset]
            assert _key_and_number(found) == (sent.key, sent.number), (
                f"{partition}/{offset} holds {_key_and_number(found)}, acknowledged was {sent}"
            )
            assert found.timestamp == sent.timestamp_ms
        self._checked_acknowledgements += len(acknowledged)

    def _check_by_number(self, partition: int, sent: Sent) -> None:
        records = self._seen[partition]
        found = [one for one in records if _key_and_number(one) == (sent.key, sent.number)]
        assert [one.timestamp for one in found] == [sent.timestamp_ms], f"lost or repeated {sent}"

    async def check_all(self, ports: Mapping[int, int], load: Load) -> None:
        """The end: nothing changed since it was first seen, nothing is missing or there twice."""
        await self.check_growth(ports, load)
        for partition, seen in enumerate(self._seen):
            async with self._reader(partition, ports) as reader:
                assert await reader.read(0, len(seen)) == seen, f"partition {partition} changed"
        numbers: dict[str, list[int]] = {key: [] for key in load.sent}
        for record in (record for seen in self._seen for record in seen):
            key, number = _key_and_number(record)
            numbers[key].append(number)
        for key, sent in load.sent.items():
            assert numbers[key] == list(range(sent)), f"key {key}: lost, repeated or out of order"

    @asynccontextmanager
    async def _reader(
        self, partition: int, ports: Mapping[int, int]
    ) -> AsyncIterator[PartitionReader]:
        connection = await Connection.open("127.0.0.1", ports[partition])
        try:
            yield PartitionReader(connection, self.topic, partition)
        finally:
            await connection.close()

    def _take(self, partition: int, records: list[Record]) -> None:
        self._seen[partition] += records
        highest = self._highest_ms[partition]
        for record in records:
            highest.append(max(record.timestamp, highest[-1] if highest else 0))

    async def _check_look_ups(self, reader: PartitionReader, partition: int) -> None:
        """The indexes against a full scan, at random offsets and times."""
        seen, highest = self._seen[partition], self._highest_ms[partition]
        for _ in range(LOOK_UPS_PER_ROUND if seen else 0):
            offset = self._random.randrange(len(seen))
            fetched = await reader.fetch(offset, max_bytes=1)
            assert offset in [record.offset for record in fetched], f"fetch at {offset} missed it"
            wanted_ms = self._random.choice(seen).timestamp + self._random.randrange(-3, 4)
            found = await reader.look_up_time(wanted_ms)
            expected = bisect_left(highest, wanted_ms)
            if found.offset == NOT_FOUND or expected == len(seen):
                # Records that came after the scan may answer for a time beyond its end.
                assert expected == len(seen), f"no offset for time {wanted_ms}"
                continue
            assert found == (expected, seen[expected].timestamp), f"time {wanted_ms} gave {found}"


def _key_and_number(record: Record) -> tuple[str, int]:
    assert record.key is not None
    assert record.value is not None
    return record.key.decode(), int(record.value.split(b":", 1)[0])
