"""The last records of a topic that grows while it is read."""

from collections.abc import Iterable
from dataclasses import replace

import pytest

from floodmark.cli.reading import ReadPlan, read
from floodmark.cli.start_at import Origin, StartAt
from floodmark.client.cluster.view import TopicPartition
from floodmark.client.consumer.consumer import Consumer
from floodmark.client.producer.producer import Producer
from floodmark.testing.broker_thread import BrokerThread

BEFORE, MEANWHILE = 10, 50
START = StartAt(Origin.BEFORE_END, 3)


async def produce(floodmark: BrokerThread, topic: str, count: int) -> None:
    async with Producer(floodmark.bootstrap_servers) as producer:
        for _ in range(count):
            await producer.send(topic, b"v")
        await producer.flush()


class Overtaken(Consumer):
    """Records come after it has asked for the end of its partitions, and before it seeks."""

    floodmark: BrokerThread

    async def beginning_offsets(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, int]:
        wanted = list(partitions)
        await produce(self.floodmark, wanted[0].topic, MEANWHILE)
        return await super().beginning_offsets(wanted)


@pytest.mark.parametrize(
    ("plan", "offsets"),
    [
        (ReadPlan((), START, last=3), range(7, 10)),
        (ReadPlan((), START, last=3, max_records=2), range(7, 9)),
        (ReadPlan((), START, last=3, max_records=40, follow=True), range(7, 47)),
        (ReadPlan((), START), range(7, 10)),
        (ReadPlan((), START, max_records=40, follow=True), range(7, 47)),
    ],
)
async def test_those_before_the_end_as_it_was_are_read_and_none_is_passed_over(
    floodmark: BrokerThread, floodmark_topic: str, plan: ReadPlan, offsets: range
) -> None:
    await produce(floodmark, floodmark_topic, BEFORE)
    async with Overtaken(floodmark.bootstrap_servers) as consumer:
        consumer.floodmark = floodmark
        found = read(consumer, replace(plan, topics=[floodmark_topic]))
        assert [record.offset async for some in found for _, record in some] == [*offsets]
