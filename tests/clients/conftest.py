"""One broker for all the client tests of a worker; each test makes topics of its own."""

import time
import uuid
from collections.abc import Iterator

import pytest

from kit.broker import Broker
from kit.target import broker_under_test


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """The broker under test, ours unless FLOODMARK_TEST_TARGET says kafka."""
    settings = {"group.initial.rebalance.delay.ms": "0"}  # no test waits for members to gather
    with broker_under_test(tmp_path_factory.mktemp("broker"), settings) as running:
        yield running


@pytest.fixture
def topic() -> str:
    """A topic name that no other test uses."""
    return f"clients-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def base_ms() -> int:
    """The timestamp of record 0: an hour ago, so that retention lets the records be."""
    return int(time.time() * 1000) - 3_600_000
