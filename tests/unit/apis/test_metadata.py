"""Topics asked for by id, as clients do that learn the ids from their group's coordinator."""

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
