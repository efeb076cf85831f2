"""What tests with real consumers share: jars fetched first, then a namespace without a network."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from kit.dubbo_go import dubbo_go_consumer
from kit.dubbo_jars import DUBBO_2, DUBBO_3, dubbo_jars
from kit.namespace import enter_loopback_namespace
from kit.services_page import page_jars
from kit.tools import require_tool
from kit.zookeeper import ZooKeeper


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What idles for minutes begins first, so that all others run meanwhile."""
    items.sort(key=lambda item: item.get_closest_marker("idles") is None)


@pytest.fixture(scope="session")
def go_consumer() -> Path:
    """Built while there is a network."""
    return dubbo_go_consumer()


@pytest.fixture(scope="session")
def namespace(request: pytest.FixtureRequest) -> None:
    require_tool("java", "javac", "mvn")
    for version in (DUBBO_2, DUBBO_3):
        dubbo_jars(version)
    page_jars()
    if any("go_consumer" in getattr(item, "fixturenames", ()) for item in request.session.items):
        request.getfixturevalue("go_consumer")
    enter_loopback_namespace()


@pytest.fixture(scope="session")
def zookeeper(namespace: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeper]:
    with ZooKeeper(tmp_path_factory.mktemp("zookeeper")) as running:
        yield running
