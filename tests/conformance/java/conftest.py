"""One broker for Kafka's verifiers; each test makes topics of its own."""

import uuid
from collections.abc import Iterator

import pytest

from kit.broker import Broker
from kit.target import broker_under_test
from kit.tools import require_tool


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    require_tool("java", "mvn")
    # No group waits for members to gather, and members of KIP-848's learn of changes soon.
    settings = {
        "group.initial.rebalance.delay.ms": "0",
        "group.consumer.min.heartbeat.interval.ms": "500",
        "group.consumer.heartbeat.interval.ms": "500",
    }
    with broker_under_test(tmp_path_factory.mktemp("broker"), settings) as running:
        yield running


@pytest.fixture
def topic() -> str:
    return f"conformance-{uuid.uuid4().hex[:12]}"
