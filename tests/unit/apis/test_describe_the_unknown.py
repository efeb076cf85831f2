"""What tools are told when they describe what is not there, or not here."""

from collections.abc import Iterator

import pytest

from floodmark.testing.broker_thread import BrokerThread
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages.describe_cluster import DescribeClusterRequest
from floodmark.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from floodmark.wire.messages.describe_producers import DescribeProducersRequest, TopicRequest
from fuzz_kit.raw_client import RawClient

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
BROKER_ID = 1


@pytest.fixture
def client(floodmark: BrokerThread) -> Iterator[RawClient]:
    with RawClient(floodmark.bootstrap_servers) as client:
        yield client


@pytest.mark.parametrize(
    ("topic", "error_code"),
    [
        ("unknown", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("..", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("x" * 249, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("x" * 250, ErrorCode.INVALID_TOPIC_EXCEPTION),
    ],
)
def test_producers_of_a_topic_that_cannot_be(
    client: RawClient, topic: str, error_code: ErrorCode
) -> None:
    request = DescribeProducersRequest(topics=[TopicRequest(name=topic, partition_indexes=[0, -1])])
    answers = client.ask(request, 0).topics[0].partitions
    assert [(p.partition_index, p.error_code) for p in answers] == [
        (0, error_code),
        (-1, error_code),
    ]
    assert all(answer.error_message for answer in answers)


@pytest.mark.parametrize(
    ("endpoint_type", "error_code"),
    [
        (1, ErrorCode.NONE),
        (2, ErrorCode.MISMATCHED_ENDPOINT_TYPE),
        (0, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE),
        (-1, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE),
        (127, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE),
    ],
)
def test_the_cluster_of_another_kind_of_endpoint(
    client: RawClient, endpoint_type: int, error_code: ErrorCode
) -> None:
    answer = client.ask(DescribeClusterRequest(endpoint_type=endpoint_type), 2)
    assert answer.error_code == error_code
    assert bool(answer.brokers) == (error_code is ErrorCode.NONE)


@pytest.mark.parametrize(
    ("resource_type", "name", "text"),
    [
        (BROKER, "7", "Unexpected broker id, expected 1 or empty string, but received 7"),
        (BROKER, "-1", "Unexpected broker id, expected 1 or empty string, but received -1"),
        (BROKER, "one", "Broker id must be an integer, but it is: one"),
        (BROKER_LOGGER, "", "Broker id must not be empty"),
        (BROKER_LOGGER, "7", "Unexpected broker id, expected 1 but received 7"),
        (CLIENT_METRICS, "", "Client metrics subscription name must not be empty"),
        (GROUP, "", "Group name must not be empty"),
        (0, "x", "Unexpected resource type 0"),
        (-128, "x", "Unexpected resource type -128"),
    ],
)
def test_settings_of_what_has_none_are_an_invalid_request(
    client: RawClient, resource_type: int, name: str, text: str
) -> None:
    assert describe(client, resource_type, name) == (ErrorCode.INVALID_REQUEST, text)


def test_an_unknown_kind_of_resource_spoils_the_whole_request(
    client: RawClient, floodmark_topic: str
) -> None:
    asked = [(TOPIC, floodmark_topic), (77, "x"), (BROKER, str(BROKER_ID))]
    resources = [
        DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None)
        for kind, name in asked
    ]
    results = client.ask(DescribeConfigsRequest(resources=resources), 4).results
    assert [(r.resource_type, r.resource_name) for r in results] == asked
    assert {(r.error_code, r.error_message, len(r.configs)) for r in results} == {
        (ErrorCode.INVALID_REQUEST, "Unexpected resource type 77", 0)
    }


def test_settings_of_a_topic_whose_name_cannot_be_are_refused_with_what_is_wrong_about_it(
    client: RawClient,
) -> None:
    error_code, text = describe(client, TOPIC, "no topic")
    assert error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert "contains one or more characters other than ASCII alphanumerics" in text


def describe(client: RawClient, resource_type: int, name: str) -> tuple[ErrorCode, str]:
    resource = DescribeConfigsResource(
        resource_type=resource_type, resource_name=name, configuration_keys=None
    )
    (result,) = client.ask(DescribeConfigsRequest(resources=[resource]), 4).results
    assert (result.resource_type, result.resource_name, result.configs) == (
        resource_type,
        name,
        [],
    )
    return ErrorCode(result.error_code), result.error_message
