"""A broker whose groups notice soon, and members that end with their test."""

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from group_kit.member import Member
from group_kit.programs import PROGRAMS
from group_kit.settings import SETTINGS
from kit.broker import Broker
from kit.target import broker_under_test

Join = Callable[[str, str], Member]


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with broker_under_test(tmp_path_factory.mktemp("broker"), SETTINGS) as running:
        yield running


@pytest.fixture
def topic() -> str:
    return f"groups-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def join(broker: Broker, topic: str, tmp_path: Path) -> Iterator[Join]:
    """Start a member of the test's group, subscribed to all topics that begin like `topic`."""
    members: list[Member] = []

    def start(client: str, strategy: str) -> Member:
        arguments = [broker.bootstrap, f"{topic}-group", f"^{topic}.*", strategy]
        log_path = tmp_path / f"member-{len(members)}-{client}.out"
        members.append(Member([*PROGRAMS[client](), *arguments], log_path))
        return members[-1]

    yield start
    for member in members:
        member.kill()
