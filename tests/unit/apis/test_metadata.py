"""Topics asked for by id, as clients do that learn the ids from their group's coordinator, and
topics that come to be because they were asked for.
"""

from uuid import UUID

import pytest

from floodmark.testing.broker_thread import BrokerThread
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from fuzz_kit.raw_client import RawClient


@pytest.mark.parametrize("name", [None, ""])
def test_a_topic_id_counts_whatever_name_comes_with_it(
    floodmark: BrokerThread, floodmark_topic: str, name: str | None
) -> None:
    with RawClient(floodmark.bootstrap_servers) as client:
        by_name = MetadataRequest(topics=[MetadataRequestTopic(name=floodmark_topic)])
        (known,) = client.ask(by_name, 13).topics
        unknown_id = UUID(int=known.topic_id.int ^ 1)
        asked = [MetadataRequestTopic(name=name, topic_id=i) for i in (known.topic_id, unknown_id)]
        found, unknown = client.ask(MetadataRequest(topics=asked), 13).topics
    assert (found.name, found.topic_id) == (floodmark_topic, known.topic_id)
    assert (unknown.name, unknown.error_code) == (None, ErrorCode.UNKNOWN_TOPIC_ID)


@pytest.mark.parametrize("version", [0, 1, 4, 13])
def test_who_asks_for_a_topic_first_is_told_that_there_is_none(
    floodmark: BrokerThread, version: int
) -> None:
    """kafka-go looks by its name whether a topic is gone."""
    asked = MetadataRequest(topics=[MetadataRequestTopic(name="new")])
    with RawClient(floodmark.bootstrap_servers) as client:
        (first,) = client.ask(asked, version).topics
        assert (first.name, first.error_code) == ("new", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        assert first.partitions == []
        (second,) = client.ask(asked, version).topics
        assert (second.name, second.error_code) == ("new", ErrorCode.NONE)
        assert len(second.partitions) == 1


def test_a_topic_that_cannot_be_made_is_told_with_the_reason(floodmark: BrokerThread) -> None:
    asked = MetadataRequest(topics=[MetadataRequestTopic(name="no topic")])
    with RawClient(floodmark.bootstrap_servers) as client:
        for _ in range(2):
            (topic,) = client.ask(asked, 13).topics
            assert topic.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
