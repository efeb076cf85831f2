"""Topics asked for by id, as clients do that learn the ids from their group's coordinator, and
topics that come to be because they were asked for.
"""

from uuid import UUID

import pytest

from floodmark.testing.broker_thread import BrokerThread
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from fuzz_kit.raw_client import RawClient

A_ID = UUID(int=7)


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


def test_a_topic_that_is_asked_for_twice_is_answered_once(
    floodmark: BrokerThread, floodmark_topic: str
) -> None:
    with RawClient(floodmark.bootstrap_servers) as client:
        names = [floodmark_topic, "nobody", floodmark_topic, "nobody"]
        by_name = MetadataRequest(
            topics=[MetadataRequestTopic(name=name) for name in names],
            allow_auto_topic_creation=False,
        )
        known, unknown = client.ask(by_name, 13).topics
        by_id = [MetadataRequestTopic(name=None, topic_id=known.topic_id)] * 2
        (again,) = client.ask(MetadataRequest(topics=by_id), 13).topics
    assert (known.name, known.error_code) == (floodmark_topic, ErrorCode.NONE)
    assert (unknown.name, unknown.error_code) == ("nobody", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert again == known


def test_names_beside_ids_are_not_answered(floodmark: BrokerThread, floodmark_topic: str) -> None:
    with RawClient(floodmark.bootstrap_servers) as client:
        by_name = MetadataRequestTopic(name=floodmark_topic)
        (known,) = client.ask(MetadataRequest(topics=[by_name]), 13).topics
        unknown_id = UUID(int=known.topic_id.int ^ 1)
        by_id = MetadataRequestTopic(name=None, topic_id=unknown_id)
        (only,) = client.ask(MetadataRequest(topics=[by_name, by_id]), 13).topics
    assert (only.topic_id, only.error_code) == (unknown_id, ErrorCode.UNKNOWN_TOPIC_ID)


@pytest.mark.parametrize("version", [10, 11])
def test_ids_and_missing_names_are_refused_as_a_whole_before_ids_may_be_asked_for(
    floodmark: BrokerThread, floodmark_topic: str, version: int
) -> None:
    for bad in (MetadataRequestTopic(name=None), MetadataRequestTopic(name="a", topic_id=A_ID)):
        asked = MetadataRequest(topics=[MetadataRequestTopic(name=floodmark_topic), bad])
        with RawClient(floodmark.bootstrap_servers) as client:
            answer = client.ask(asked, version)
        assert [(topic.name, topic.error_code) for topic in answer.topics] == [
            (floodmark_topic, ErrorCode.INVALID_REQUEST),
            (bad.name or "", ErrorCode.INVALID_REQUEST),
        ]
        assert answer.brokers == []


def test_an_unknown_topic_is_told_with_what_its_name_says(floodmark: BrokerThread) -> None:
    asked = MetadataRequest(
        topics=[MetadataRequestTopic(name=name) for name in ("__consumer_offsets", "nobody")],
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=True,
    )
    with RawClient(floodmark.bootstrap_servers) as client:
        internal, ordinary = client.ask(asked, 13).topics
    assert internal.error_code == ordinary.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert (internal.is_internal, ordinary.is_internal) == (True, False)
    assert ordinary.topic_authorized_operations > 0
