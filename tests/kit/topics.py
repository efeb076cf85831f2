"""Topics filled and read with our own client in one call, for tests that judge other parts."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence

from floodmark.client.admin.admin import Admin
from floodmark.client.admin.admin_types import NewTopic
from floodmark.client.cluster.cluster import Cluster
from floodmark.client.consumer.consumer import Consumer, ConsumerRecord
from floodmark.client.producer.producer import Producer
from floodmark.client.settings import ConsumerSettings, ProducerSettings

KeyValue = tuple[bytes | None, bytes | None]


def make_topic(
    bootstrap: str, name: str, partitions: int = 1, configs: Mapping[str, str] | None = None
) -> None:
    async def run() -> None:
        async with Admin(bootstrap) as admin:
            topic = NewTopic(name, partitions=partitions, configs=dict(configs or {}))
            await admin.create_topic(topic)
        async with Cluster(bootstrap) as cluster:
            await cluster.topics_of([name])  # waits until the broker that is asked knows it

    asyncio.run(run())


def delete_topic(bootstrap: str, name: str) -> None:
    async def run() -> None:
        async with Admin(bootstrap) as admin:
            for outcome in await admin.delete_topics([name]):
                assert outcome.error is None

    asyncio.run(run())


def add_partitions(bootstrap: str, name: str, total: int) -> None:
    async def run() -> None:
        async with Admin(bootstrap) as admin:
            for outcome in await admin.add_partitions({name: total}):
                assert outcome.error is None

    asyncio.run(run())


def fill_topic(
    bootstrap: str,
    name: str,
    records: Iterable[KeyValue],
    *,
    partition: int | None = None,
    compression: str = "none",
    timestamp_ms: int | None = None,
    headers: Sequence[tuple[str, bytes | None]] = (),
) -> None:
    async def run() -> None:
        settings = ProducerSettings(compression_type=compression)
        async with Producer(bootstrap, settings) as producer:
            deliveries = [
                await producer.send(
                    name,
                    value,
                    key=key,
                    partition=partition,
                    timestamp_ms=timestamp_ms,
                    headers=headers,
                )
                for key, value in records
            ]
            await producer.flush()
            for delivery in deliveries:
                await delivery

    asyncio.run(run())


def read_topic(bootstrap: str, name: str, *, committed: bool = True) -> list[ConsumerRecord]:
    """All records from the beginning to the end as it is now."""

    async def run() -> list[ConsumerRecord]:
        level = "read_committed" if committed else "read_uncommitted"
        async with Consumer(bootstrap, ConsumerSettings(isolation_level=level)) as consumer:
            partitions = await consumer.partitions_of(name)
            await consumer.assign(partitions)
            consumer.seek_to_beginning()
            ends = await consumer.end_offsets(partitions)
            found: list[ConsumerRecord] = []
            while any([await consumer.position(p) < ends[p] for p in partitions]):
                for partition, records in (await consumer.poll(max_records=10_000)).items():
                    topic, index = partition
                    found += [
                        ConsumerRecord(
                            topic,
                            index,
                            record.offset,
                            record.timestamp,
                            record.key,
                            record.value,
                            record.headers,
                        )
                        for record in records
                    ]
            return found

    return asyncio.run(run())


def end_offsets(bootstrap: str, name: str) -> dict[int, int]:
    """The end of each partition as a reader without isolation sees it."""

    async def run() -> dict[int, int]:
        async with Consumer(bootstrap) as consumer:
            ends = await consumer.end_offsets(await consumer.partitions_of(name))
            return {partition.partition: end for partition, end in ends.items()}

    return asyncio.run(run())
