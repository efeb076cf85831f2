"""One real ZooKeeper for all tests of this folder; each test has a chroot of its own."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import pytest

from kit.zookeeper import ZooKeeper

_numbers = count(1)


@pytest.fixture(scope="session")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeper]:
    with ZooKeeper(tmp_path_factory.mktemp("zookeeper")) as server:
        yield server


@pytest.fixture
def chroot(zookeeper: ZooKeeper) -> str:
    """What to connect to, with a part of the tree that no other test sees."""
    return f"{zookeeper.hosts}/tests/number-{next(_numbers)}"
