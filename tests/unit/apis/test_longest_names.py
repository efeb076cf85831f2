"""Names as long as a string can be: what is told about them must fit into a string too."""

from collections.abc import Iterator
from typing import Any

import pytest

from floodmark.testing.broker_thread import BrokerThread
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from floodmark.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from floodmark.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from floodmark.wire.messages.describe_groups import DescribeGroupsRequest
from floodmark.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from floodmark.wire.messages.find_coordinator import FindCoordinatorRequest
from floodmark.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from fuzz_kit.raw_client import RawClient

LONGEST = "ü" * 16_383


@pytest.fixture
def client(floodmark: BrokerThread) -> Iterator[RawClient]:
    with RawClient(floodmark.bootstrap_servers) as client:
        request = FindCoordinatorRequest(key_type=0, coordinator_keys=["g"])
        assert client.ask(request, 4).coordinators[0].error_code == ErrorCode.NONE
        yield client


@pytest.mark.parametrize(
    ("request_", "version", "where", "error_code"),
    [
        (
            CreateTopicsRequest(topics=[CreatableTopic(name=LONGEST)]),
            7,
            "topics",
            ErrorCode.INVALID_TOPIC_EXCEPTION,
        ),
        (
            DescribeConfigsRequest(
                resources=[DescribeConfigsResource(resource_type=2, resource_name=LONGEST)]
            ),
            4,
            "results",
            ErrorCode.INVALID_TOPIC_EXCEPTION,
        ),
        (DescribeGroupsRequest(groups=[LONGEST]), 6, "groups", ErrorCode.GROUP_ID_NOT_FOUND),
        (
            ConsumerGroupHeartbeatRequest(group_id=LONGEST, member_id=LONGEST, member_epoch=1),
            1,
            None,
            ErrorCode.GROUP_ID_NOT_FOUND,
        ),
        (
            UpdateFeaturesRequest(
                feature_updates=[FeatureUpdateKey(feature=LONGEST, max_version_level=1)]
            ),
            2,
            None,
            ErrorCode.INVALID_UPDATE_VERSION,
        ),
    ],
    ids=lambda value: type(value).__name__ if hasattr(value, "__dataclass_fields__") else "",
)
def test_the_error_arrives(
    client: RawClient, request_: Any, version: int, where: str | None, error_code: ErrorCode
) -> None:
    response = client.ask(request_, version)
    answer = response if where is None else getattr(response, where)[0]
    assert answer.error_code == error_code
    assert len(answer.error_message.encode()) > 32_000


def test_an_election_in_a_topic_of_the_longest_name(client: RawClient) -> None:
    wanted = TopicPartitions(topic=LONGEST, partitions=[0])
    response = client.ask(ElectLeadersRequest(election_type=0, topic_partitions=[wanted]), 2)
    (result,) = response.replica_election_results[0].partition_result
    assert result.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
