"""One broker for all the client tests of a worker; each test makes topics of its own."""

import uuid
from collections.abc import Iterator

import pytest

from kit.broker import Broker
from kit.target import broker_under_test


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """The broker under test, ours unless FLOODMARK_TEST_TARGET says kafka."""
    with broker_under_test(tmp_path_factory.mktemp("broker")) as running:
        yield running


@pytest.fixture
def topic() -> str:
    """A topic name that no other test uses."""
    return f"clients-{uuid.uuid4().hex[:12]}"
