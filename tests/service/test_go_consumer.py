"""dubbo-go finds the service in ZooKeeper and calls it."""

from pathlib import Path

import pytest

from floodmark.service.api import settings_of
from floodmark.service.provider import Services
from kit.process import free_port
from kit.running import run
from kit.sample_service import INTERFACE, Sample
from kit.zookeeper import ZooKeeper

pytestmark = [pytest.mark.go, pytest.mark.java]


async def test_go_calls_everything(go_consumer: Path, zookeeper: ZooKeeper) -> None:
    # A folder of its own: providers that another test has killed are registered for a while.
    registry = f"zookeeper://{zookeeper.hosts}?group=go"
    settings = settings_of(Sample, interface=INTERFACE, registry=registry, port=free_port())
    async with Services() as services:
        await services.export(Sample(), settings)
        assert "all holds" in await run([str(go_consumer), zookeeper.hosts, "go"])
