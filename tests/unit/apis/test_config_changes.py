"""Changes of settings that are refused before the controller is asked."""

from collections.abc import Callable, Iterator

import pytest

from floodmark.testing.broker_thread import BrokerThread
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages import alter_configs, incremental_alter_configs
from floodmark.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from fuzz_kit.raw_client import RawClient

TOPIC, BROKER = 2, 4
Settings = list[tuple[str, str | None]]
Ask = Callable[[RawClient, list[tuple[int, str, Settings]]], list[tuple[str, int, str | None]]]


@pytest.fixture
def client(floodmark: BrokerThread) -> Iterator[RawClient]:
    with RawClient(floodmark.bootstrap_servers) as client:
        yield client


def replace(
    client: RawClient, resources: list[tuple[int, str, Settings]]
) -> list[tuple[str, int, str | None]]:
    request = alter_configs.AlterConfigsRequest(
        resources=[
            alter_configs.AlterConfigsResource(
                resource_type=kind,
                resource_name=name,
                configs=[alter_configs.AlterableConfig(name=n, value=v) for n, v in settings],
            )
            for kind, name, settings in resources
        ]
    )
    answers = client.ask(request, 2).responses
    return [(a.resource_name, a.error_code, a.error_message) for a in answers]


def change(
    client: RawClient, resources: list[tuple[int, str, Settings]]
) -> list[tuple[str, int, str | None]]:
    request = incremental_alter_configs.IncrementalAlterConfigsRequest(
        resources=[
            incremental_alter_configs.AlterConfigsResource(
                resource_type=kind,
                resource_name=name,
                configs=[
                    incremental_alter_configs.AlterableConfig(name=n, config_operation=0, value=v)
                    for n, v in settings
                ],
            )
            for kind, name, settings in resources
        ]
    )
    answers = client.ask(request, 1).responses
    return [(a.resource_name, a.error_code, a.error_message) for a in answers]


both = pytest.mark.parametrize("ask", [replace, change])


@both
def test_a_setting_that_is_given_twice_is_not_guessed(
    client: RawClient, floodmark_topic: str, ask: Ask
) -> None:
    settings: Settings = [("retention.ms", "1000"), ("retention.ms", "2000")]
    assert ask(client, [(TOPIC, floodmark_topic, settings)]) == [
        (floodmark_topic, ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
    ]
    resource = DescribeConfigsResource(
        resource_type=TOPIC, resource_name=floodmark_topic, configuration_keys=["retention.ms"]
    )
    (result,) = client.ask(DescribeConfigsRequest(resources=[resource]), 4).results
    assert [config.value for config in result.configs] == ["604800000"]


@both
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("9", "Unexpected broker id, expected 1, but received 9"),
        ("-1", "Unexpected broker id, expected 1, but received -1"),
        ("01", "Unexpected broker id, expected 1, but received 01"),
        ("one", "Node id must be an integer, but it is: one"),
    ],
)
def test_settings_of_another_broker_are_not_changed_here(
    client: RawClient, ask: Ask, name: str, text: str
) -> None:
    answers = ask(client, [(BROKER, name, [("num.io.threads", "4")])])
    assert answers == [(name, ErrorCode.INVALID_REQUEST, text)]


@both
@pytest.mark.parametrize("resource_type", [0, 1, 3, 77, -128])
def test_a_kind_without_settings_is_an_invalid_request(
    client: RawClient, ask: Ask, resource_type: int
) -> None:
    answers = ask(client, [(resource_type, "x", [("a", "b")])])
    text = f"Unknown resource type {resource_type}"
    assert answers == [("x", ErrorCode.INVALID_REQUEST, text)]


@both
def test_a_resource_that_is_given_twice_is_refused_both_times(
    client: RawClient, floodmark_topic: str, ask: Ask
) -> None:
    once = (TOPIC, floodmark_topic, [("retention.ms", "1000")])
    unknown = (77, "x", [("a", "b")])
    answers = ask(client, [once, unknown, once, unknown])
    text = "Each resource must appear at most once."
    assert sorted(answers) == sorted(
        (name, ErrorCode.INVALID_REQUEST, text)
        for name in (floodmark_topic, floodmark_topic, "x", "x")
    )
