"""How far consumer groups are behind, as kafka_exporter names it."""

import pytest

from floodmark.client.consumer.consumer import Consumer
from floodmark.client.settings import ConsumerSettings
from floodmark.observability import lag
from floodmark.testing.broker_thread import BrokerThread
from kit.plain_requests import commit, delete, produce
from kit.scraping import Samples, Watcher

LAG = "kafka_consumergroup_lag"
LEFT_OUT = "floodmark_metrics_left_out"


async def test_lag_is_the_distance_from_the_committed_offset_to_the_end(
    floodmark: BrokerThread, watcher: Watcher
) -> None:
    """Of a group without members: nobody else says that it is behind."""
    topic = floodmark.create_topic("orders", 2)
    produce(floodmark, topic, 10)
    await commit(floodmark, "g", topic, 4, 0)
    samples = watcher.scrape()
    first = {"consumergroup": "g", "topic": topic, "partition": "0"}
    of_topic = {"consumergroup": "g", "topic": topic}
    assert samples.of(LAG, **first) == 6
    assert samples.of(LAG, **{**first, "partition": "1"}) == 0
    assert samples.of(LAG + "_sum", **of_topic) == 6
    assert samples.of("kafka_consumergroup_current_offset", **first) == 4
    assert samples.of("kafka_consumergroup_current_offset_sum", **of_topic) == 4
    assert samples.of("kafka_consumergroup_members", consumergroup="g") == 0
    partition = {"topic": topic, "partition": "0"}
    assert samples.of("kafka_topic_partition_current_offset", **partition) == 10
    assert samples.of("kafka_topic_partition_oldest_offset", **partition) == 0
    assert samples.of("kafka_topic_partitions", topic=topic) == 2
    assert samples.of("kafka_brokers") == 1


async def test_members_are_counted(
    floodmark: BrokerThread, watcher: Watcher, floodmark_topic: str
) -> None:
    produce(floodmark, floodmark_topic, 3)
    settings = ConsumerSettings(group_id="readers", auto_offset_reset="earliest")
    async with Consumer(floodmark.bootstrap_servers, settings) as consumer:
        await consumer.subscribe([floodmark_topic])
        while not await consumer.poll():
            pass
        await consumer.commit()
        samples = watcher.scrape()
    assert samples.of("kafka_consumergroup_members", consumergroup="readers") == 1
    labels = {"consumergroup": "readers", "topic": floodmark_topic, "partition": "0"}
    assert samples.of(LAG, **labels) == 0


async def test_a_commit_beyond_the_end_is_no_lag_and_a_deleted_topic_has_none(
    floodmark: BrokerThread, watcher: Watcher
) -> None:
    for name in ("kept", "deleted"):
        await commit(floodmark, "g", floodmark.create_topic(name), 100)
    floodmark.call(delete(floodmark, "deleted"))
    assert [value for _, value in watcher.scrape().all(LAG)] == [0]


@pytest.mark.parametrize("group", ['a"b', "a\\b", "a\nb", "{}", "ü\u2028", "a" * 200])
async def test_any_name_of_a_group_can_be_read_back(
    floodmark: BrokerThread, watcher: Watcher, floodmark_topic: str, group: str
) -> None:
    await commit(floodmark, group, floodmark_topic, 0)
    (found,) = (labels for labels, _ in watcher.scrape().all(LAG))
    assert found["consumergroup"] == group


def left_out(samples: Samples) -> dict[str, float]:
    return {labels["kind"]: value for labels, value in samples.all(LEFT_OUT)}


async def test_many_partitions_are_summed_up_and_what_is_left_out_is_counted(
    floodmark: BrokerThread, watcher: Watcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lag, "MAX_GROUP_PARTITIONS", 3)
    monkeypatch.setattr(lag, "MAX_GROUP_TOPICS", 2)
    topic = floodmark.create_topic("orders", 2)
    for group in ("a", "b", "c"):
        await commit(floodmark, group, topic, 0, 0)
    samples = watcher.scrape()
    assert {labels["consumergroup"] for labels, _ in samples.all(LAG)} == {"a"}
    assert {labels["consumergroup"] for labels, _ in samples.all(LAG + "_sum")} == {"a", "b"}
    expected = {"groups": 0, "group_topics": 1, "group_partitions": 4}
    assert left_out(samples).items() >= expected.items()


class TestWithFewGroups:
    @pytest.fixture
    def floodmark_settings(self) -> dict[str, str]:
        return {"floodmark.metrics.max.groups": "2"}

    async def test_groups_beyond_the_cap_have_no_series(
        self, floodmark: BrokerThread, watcher: Watcher, floodmark_topic: str
    ) -> None:
        for number in range(5):
            await commit(floodmark, f"g{number}", floodmark_topic, 0)
        samples = watcher.scrape()
        groups = {labels["consumergroup"] for labels, _ in samples.all(LAG)}
        assert len(groups) == 2
        assert left_out(samples)["groups"] == 3
