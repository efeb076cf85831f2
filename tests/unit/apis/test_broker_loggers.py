"""Levels of loggers are read and changed by clients, as in Kafka."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from floodmark.testing.broker_thread import BrokerThread
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from floodmark.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from fuzz_kit.raw_client import RawClient

BROKER_LOGGER = 8
NAME = "floodmark.network.connection"
SET, DELETE, APPEND = 0, 1, 2


@pytest.fixture
def client(floodmark: BrokerThread) -> Iterator[RawClient]:
    levels = {name: logging.getLogger(name).level for name in (None, NAME, "floodmark.network")}
    with RawClient(floodmark.bootstrap_servers) as client:
        yield client
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)


def levels(client: RawClient, *names: str) -> dict[str, str]:
    resource = DescribeConfigsResource(
        resource_type=BROKER_LOGGER, resource_name="1", configuration_keys=list(names) or None
    )
    (result,) = client.ask(DescribeConfigsRequest(resources=[resource]), 4).results
    assert result.error_code == ErrorCode.NONE
    assert {(c.config_source, c.read_only, c.is_sensitive) for c in result.configs} == {
        (6, False, False)
    }
    return {config.name: config.value for config in result.configs}


def alter(
    client: RawClient,
    name: str,
    value: str | None,
    operation: int = SET,
    *,
    broker: str = "1",
    validate_only: bool = False,
) -> tuple[int, str | None]:
    config = AlterableConfig(name=name, config_operation=operation, value=value)
    resource = AlterConfigsResource(
        resource_type=BROKER_LOGGER, resource_name=broker, configs=[config]
    )
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)
    (answer,) = client.ask(request, 1).responses
    assert (answer.resource_type, answer.resource_name) == (BROKER_LOGGER, broker)
    return answer.error_code, answer.error_message


def test_a_level_acts_at_once_until_it_is_removed(client: RawClient) -> None:
    before = levels(client, NAME)
    for level, number in (("TRACE", 5), ("DEBUG", 10), ("WARN", 30), ("FATAL", 50)):
        assert alter(client, NAME, level) == (ErrorCode.NONE, None)
        assert logging.getLogger(NAME).isEnabledFor(number)
        assert not logging.getLogger(NAME).isEnabledFor(number - 1)
        assert levels(client, NAME) == {NAME: level}
    assert alter(client, NAME, None, DELETE) == (ErrorCode.NONE, None)
    assert levels(client, NAME) == before


def test_a_package_stands_for_its_modules_and_root_for_all(client: RawClient) -> None:
    assert {"root", "floodmark", "floodmark.network", NAME} <= levels(client).keys()
    assert alter(client, "floodmark.network", "ERROR")[0] == ErrorCode.NONE
    assert levels(client, NAME) == {NAME: "ERROR"}
    assert alter(client, "root", "DEBUG")[0] == ErrorCode.NONE
    assert logging.getLogger().level == logging.DEBUG
    assert levels(client, "root", NAME) == {"root": "DEBUG", NAME: "ERROR"}


def test_a_change_that_is_only_checked_changes_nothing(client: RawClient) -> None:
    before = levels(client, NAME)
    assert alter(client, NAME, "FATAL", validate_only=True) == (ErrorCode.NONE, None)
    assert levels(client, NAME) == before


@pytest.mark.parametrize(
    ("name", "value", "operation", "broker", "error_code", "text"),
    [
        ("no.such", "INFO", SET, "1", ErrorCode.INVALID_CONFIG, "Logger no.such does not exist!"),
        (NAME, "LOUD", SET, "1", ErrorCode.INVALID_CONFIG, "not a supported log level"),
        (NAME, None, SET, "1", ErrorCode.INVALID_REQUEST, f"Null value not supported for : {NAME}"),
        (NAME, "INFO", APPEND, "1", ErrorCode.INVALID_REQUEST, "APPEND operation is not allowed"),
        (NAME, "INFO", 9, "1", ErrorCode.INVALID_REQUEST, "Unknown operation type 9"),
        ("root", None, DELETE, "1", ErrorCode.INVALID_REQUEST, "root logger is not allowed"),
        (NAME, "INFO", SET, "7", ErrorCode.INVALID_REQUEST, "Expected 1, but received 7"),
        (NAME, "INFO", SET, "x", ErrorCode.INVALID_REQUEST, "Node id must be an integer"),
    ],
)
def test_what_makes_no_sense_is_refused_and_changes_nothing(
    client: RawClient,
    name: str,
    value: str | None,
    operation: int,
    broker: str,
    error_code: ErrorCode,
    text: str,
) -> None:
    before = levels(client)
    code, message = alter(client, name, value, operation, broker=broker)
    assert code == error_code and message is not None and text in message
    assert levels(client) == before
