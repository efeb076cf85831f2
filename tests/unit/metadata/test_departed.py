"""Which brokers count as just gone, and which clients hear about them."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest

from floodmark.apis.context import RequestContext, Services
from floodmark.apis.handlers import find_coordinator, metadata
from floodmark.config import BrokerConfig
from floodmark.metadata.cache import MetadataCache
from floodmark.metadata.departed import DepartedBrokers
from floodmark.metadata.image import (
    CONSUMER_OFFSETS_TOPIC,
    BrokerInfo,
    Endpoint,
    MetadataImage,
    PartitionImage,
    TopicImage,
)
from floodmark.network.connection import Peer
from floodmark.testing.virtual_clock import VirtualClock
from floodmark.wire.errors import ErrorCode
from floodmark.wire.headers import RequestHeader
from floodmark.wire.messages.find_coordinator import FindCoordinatorRequest
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


def request_of(
    client: str, api_key: int, api_version: int, cache: MetadataCache, departed: DepartedBrokers
) -> RequestContext:
    """`client` is its name and its version, as in ApiVersions."""
    services: Any = SimpleNamespace(
        image=cache.image, departed=departed, config=cache.config, broker_id=1
    )
    services.broker_endpoints = lambda *args, **named: Services.broker_endpoints(
        services, *args, **named
    )
    services.groups = SimpleNamespace(
        log=SimpleNamespace(topic=CONSUMER_OFFSETS_TOPIC, partition_count=1)
    )
    peer = Peer("c", "h", "L", "PLAINTEXT")
    peer.client_software_name, peer.client_software_version = client.split()
    return RequestContext(services, peer, RequestHeader(api_key, api_version, 1))


LIBRDKAFKA = ["librdkafka 2.16.0", "confluent-kafka-python 2.16.1-rdkafka-2.16.0"]
JAVA = "apache-kafka-java 4.3.0"


@pytest.mark.parametrize(
    ("client", "expected"), [*((name, [1, 2, 3]) for name in LIBRDKAFKA), (JAVA, [1, 3])]
)
async def test_only_librdkafka_still_finds_a_broker_that_has_just_left(
    cache, departed, client: str, expected: list[int]
) -> None:
    await cache.publish(image(1, 3))
    answer = metadata.handle(request_of(client, 3, 12, cache, departed), MetadataRequest(topics=[]))
    assert sorted(one.node_id for one in answer.brokers) == expected


def coordinated_by(leader: int, *in_sync: int) -> dict[str, TopicImage]:
    partition = PartitionImage(leader, 1, 1, (1, 2, 3), in_sync)
    return {CONSUMER_OFFSETS_TOPIC: TopicImage(CONSUMER_OFFSETS_TOPIC, uuid4(), (partition,))}


def coordinator(
    client: str, cache: MetadataCache, departed: DepartedBrokers
) -> tuple[ErrorCode, int]:
    answer = find_coordinator.handle(
        request_of(client, 10, 2, cache, departed), FindCoordinatorRequest(key="g")
    )
    return ErrorCode(answer.error_code), answer.node_id


NOBODY = (ErrorCode.COORDINATOR_NOT_AVAILABLE, -1)


@pytest.mark.parametrize(
    ("client", "expected"), [*((name, (ErrorCode.NONE, 2)) for name in LIBRDKAFKA), (JAVA, NOBODY)]
)
async def test_only_librdkafka_finds_a_coordinator_that_has_just_left_and_has_no_successor(
    cache, departed, client: str, expected: tuple[ErrorCode, int]
) -> None:
    await cache.publish(replace(image(1, 3), topics=coordinated_by(-1, 2)))
    assert coordinator(client, cache, departed) == expected


async def test_a_coordinator_that_left_long_ago_is_not_available(cache, departed, clock) -> None:
    await cache.publish(replace(image(1, 3), topics=coordinated_by(-1, 2)))
    clock.advance(REMEMBERED_MS + 1)
    assert coordinator(LIBRDKAFKA[0], cache, departed) == NOBODY


async def test_the_successor_of_a_coordinator_that_has_just_left_is_found(cache, departed) -> None:
    await cache.publish(replace(image(1, 3), topics=coordinated_by(3, 3, 1)))
    assert coordinator(LIBRDKAFKA[0], cache, departed) == (ErrorCode.NONE, 3)


async def test_no_one_is_named_while_several_replicas_may_become_the_coordinator(
    cache, departed
) -> None:
    await cache.publish(replace(image(1, 3), topics=coordinated_by(-1, 1, 2)))
    assert coordinator(LIBRDKAFKA[0], cache, departed) == NOBODY
