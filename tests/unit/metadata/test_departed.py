"""Which brokers count as just gone, and which clients hear about them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from floodmark.apis.context import RequestContext, Services
from floodmark.apis.handlers import metadata
from floodmark.config import BrokerConfig
from floodmark.metadata.cache import MetadataCache
from floodmark.metadata.departed import DepartedBrokers
from floodmark.metadata.image import BrokerInfo, Endpoint, MetadataImage
from floodmark.network.connection import Peer
from floodmark.testing.virtual_clock import VirtualClock
from floodmark.wire.headers import RequestHeader
from floodmark.wire.messages.metadata import MetadataRequest

REMEMBERED_MS = 1000


def broker(number: int) -> BrokerInfo:
    return BrokerInfo(number, 5, {"L": Endpoint("L", f"host-{number}", 9000, "PLAINTEXT")})


def image(*numbers: int) -> MetadataImage:
    return MetadataImage(brokers={number: broker(number) for number in numbers})


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def departed(clock: VirtualClock) -> DepartedBrokers:
    return DepartedBrokers(clock, REMEMBERED_MS)


@pytest.fixture
async def cache(departed: DepartedBrokers) -> MetadataCache:
    cache = MetadataCache(BrokerConfig.load({}))
    cache.subscribe(departed.image_changed)
    await cache.publish(image(1, 2, 3))
    return cache


async def test_a_broker_that_left_is_remembered_for_a_while(cache, departed, clock) -> None:
    await cache.publish(image(1, 3))
    assert departed.recent() == [broker(2)]
    clock.advance(REMEMBERED_MS + 1)
    assert departed.recent() == []


async def test_one_that_is_back_has_not_left(cache, departed) -> None:
    await cache.publish(image(1, 3))
    await cache.publish(image(1, 2, 3))
    assert departed.recent() == []


async def listed(cache: MetadataCache, departed: DepartedBrokers, peer: Peer) -> list[int]:
    services: Any = SimpleNamespace(
        image=cache.image, departed=departed, config=cache.config, broker_id=1
    )
    services.broker_endpoints = lambda *args, **named: Services.broker_endpoints(
        services, *args, **named
    )
    context = RequestContext(services, peer, RequestHeader(3, 12, 1))
    answer = metadata.handle(context, MetadataRequest(topics=[]))
    return sorted(one.node_id for one in answer.brokers)


@pytest.mark.parametrize(
    ("name", "version", "expected"),
    [
        ("librdkafka", "2.16.0", [1, 2, 3]),
        ("confluent-kafka-python", "2.16.1-rdkafka-2.16.0", [1, 2, 3]),
        ("apache-kafka-java", "4.3.0", [1, 3]),
    ],
)
async def test_only_librdkafka_still_finds_a_broker_that_has_just_left(
    cache, departed, name: str, version: str, expected: list[int]
) -> None:
    await cache.publish(image(1, 3))
    peer = Peer("c", "h", "L", "PLAINTEXT")
    peer.client_software_name, peer.client_software_version = name, version
    assert await listed(cache, departed, peer) == expected
