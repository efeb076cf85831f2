"""What tests with real consumers share: jars fetched first, then a namespace without a network."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from floodmark.service.interface import interface_of
from floodmark.service.stub import go_source
from kit.dubbo_jars import DUBBO_2, DUBBO_3, dubbo_jars
from kit.go_program import built
from kit.namespace import enter_loopback_namespace
from kit.sample_service import INTERFACE, Sample
from kit.services_page import page_jars
from kit.tools import require_tool
from kit.zookeeper import ZooKeeper


@pytest.fixture(scope="session")
def go_consumer() -> Path:
    """Built while there is a network, on the stub that a Go team would write."""
    stub = go_source(interface_of(Sample, INTERFACE))
    folder = Path(__file__).parent / "go"
    return built(folder, "dubbo-go-consumer", {"stub/stub.go": stub})


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
