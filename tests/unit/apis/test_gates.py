"""Prepared requests end with their generation; throttled connections wait; who is unknown may only
introduce himself."""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest

from floodmark.apis.authorizer import Operation, ResourceKind
from floodmark.apis.prepared.memory import Memory
from floodmark.controller.topics import TopicRef
from floodmark.network.connection import Connection, Peer
from floodmark.network.principal import ANONYMOUS, Principal
from floodmark.testing.broker_thread import BrokerThread
from floodmark.wire.api_keys import ApiKey
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages.api_versions import ApiVersionsRequest
from floodmark.wire.messages.metadata import MetadataRequest
from floodmark.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from floodmark.wire.messages.sasl_handshake import SaslHandshakeRequest
from fuzz_kit.raw_client import RawClient, request_bytes
from kit.authorizers import Permits, Throttles, plug_in
from kit.flushed import NEVER_FLUSHED
from kit.plain_requests import fetch_request, produce_request

PRODUCE_VERSION, FETCH_VERSION = 12, 12
THROTTLE_MS = 60
WRITE = (Operation.WRITE, ResourceKind.TOPIC, "t")


@pytest.fixture
def floodmark_settings() -> Mapping[str, str]:
    """What has to wait for a sync is never prepared."""
    return NEVER_FLUSHED


@pytest.fixture
def client(floodmark: BrokerThread) -> Iterator[RawClient]:
    floodmark.create_topic("t")
    with RawClient(floodmark.bootstrap_servers) as client:
        yield client


def produce(client: RawClient) -> int:
    answer = client.ask(produce_request("t"), PRODUCE_VERSION)
    error_code: int = answer.responses[0].partition_responses[0].error_code
    return error_code


def connection_of(floodmark: BrokerThread) -> Connection:
    (connection,) = (c for p in floodmark.broker.network.processors for c in p.connections)
    return connection


def count_decoded(floodmark: BrokerThread) -> list[int]:
    """Notes from now on each produce that is decoded."""
    decoded: list[int] = []
    routes = floodmark.broker.dispatch._routes
    route = routes[0, PRODUCE_VERSION]

    def decode(*arguments: Any) -> Any:
        decoded.append(1)
        return route.decode(*arguments)

    async def plug() -> None:
        routes[0, PRODUCE_VERSION] = route._replace(decode=decode)

    floodmark.call(plug())
    return decoded


def raise_acl_generation(authorizer: Permits, quotas: Throttles) -> None:
    authorizer.change(WRITE)


def raise_quota_generation(authorizer: Permits, quotas: Throttles) -> None:
    quotas.changed()


@pytest.mark.parametrize("change", [raise_acl_generation, raise_quota_generation])
def test_no_prepared_request_survives_its_generation(
    floodmark: BrokerThread, client: RawClient, change: Callable[[Permits, Throttles], None]
) -> None:
    authorizer, quotas = Permits(WRITE), Throttles()
    plug_in(floodmark, authorizer, quotas)
    assert produce(client) == 0
    decoded = count_decoded(floodmark)
    assert produce(client) == 0
    asked = len(authorizer.asked)
    assert (decoded, asked) == ([], 1)
    change(authorizer, quotas)
    assert produce(client) == 0
    assert (len(decoded), len(authorizer.asked)) == (1, 2)
    assert produce(client) == 0
    assert (len(decoded), len(authorizer.asked)) == (1, 2)


def test_nothing_that_a_connection_prepared_survives_its_generation(
    floodmark: BrokerThread, client: RawClient
) -> None:
    def fetch() -> int:
        answer = client.ask(fetch_request("t", 0), FETCH_VERSION)
        return len(answer.responses[0].partitions[0].records)

    assert produce(client) == 0
    size_bytes = fetch()
    peer = connection_of(floodmark).peer
    memory = peer.prepared
    assert isinstance(memory, Memory)
    assert (memory.produces is not None, len(memory.fetch_answers)) == (True, 1)
    floodmark.broker.services.generation.end()
    assert fetch() == size_bytes
    after = peer.prepared
    assert isinstance(after, Memory) and after is not memory
    assert (after.produces, len(after.fetch_answers)) == (None, 1)


def test_a_revoked_right_ends_what_was_prepared_with_it(
    floodmark: BrokerThread, client: RawClient
) -> None:
    authorizer = Permits(WRITE)
    plug_in(floodmark, authorizer)
    assert [produce(client) for _ in range(3)] == [0, 0, 0]
    authorizer.change()
    denied = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert [produce(client) for _ in range(3)] == [denied, denied, denied]
    replica = floodmark.broker.replicas.find(("t", 0))
    assert replica is not None
    assert replica.log.log_end_offset == 3


def test_no_prepared_request_survives_its_leadership(
    floodmark: BrokerThread, client: RawClient
) -> None:
    assert [produce(client) for _ in range(2)] == [0, 0]
    replicas = floodmark.broker.replicas
    replica = replicas.find(("t", 0))
    assert replica is not None
    leadership = replica.core.leadership
    elsewhere = replace(
        leadership,
        leader=2,
        leader_epoch=leadership.leader_epoch + 1,
        partition_epoch=leadership.partition_epoch + 1,
    )

    async def follow() -> None:
        replicas.lead_or_follow(replica, elsewhere)

    floodmark.call(follow())
    assert produce(client) == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_no_prepared_request_survives_its_topic(floodmark: BrokerThread, client: RawClient) -> None:
    assert [produce(client) for _ in range(2)] == [0, 0]
    floodmark.call(floodmark.broker.controller.delete_topics([TopicRef(name="t")]))
    assert produce(client) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_the_throttle_time_is_in_prepared_answers_too(
    floodmark: BrokerThread, client: RawClient
) -> None:
    quotas = Throttles(0, 0, 1, 0, 2, 3)
    plug_in(floodmark, quotas=quotas)
    produced = [client.ask(produce_request("t"), PRODUCE_VERSION) for _ in range(4)]
    assert [answer.throttle_time_ms for answer in produced] == [0, 0, 1, 0]
    offsets = [answer.responses[0].partition_responses[0].base_offset for answer in produced]
    assert offsets == [0, 1, 2, 3]
    fetched = [client.ask(fetch_request("t", 0), FETCH_VERSION) for _ in range(3)]
    assert [answer.throttle_time_ms for answer in fetched] == [2, 3, 0]
    # As in Kafka, a throttled fetch brings nothing, and its bytes do not count.
    assert [len(answer.responses) for answer in fetched] == [0, 0, 1]
    assert [usage.answer_bytes for usage in quotas.forgiven] == [
        len(fetched[2].responses[0].partitions[0].records)
    ] * 2


def test_quotas_are_told_who_took_how_much(floodmark: BrokerThread, client: RawClient) -> None:
    quotas = Throttles()
    plug_in(floodmark, quotas=quotas)
    request = request_bytes(produce_request("t"), PRODUCE_VERSION)
    for _ in range(2):
        client.send_frame(request)
        answer_bytes = len(client.read_frame())
    first, second = quotas.usages
    assert first == second
    assert first == (
        ANONYMOUS,
        "raw",
        "127.0.0.1",
        ApiKey.PRODUCE,
        len(request),
        answer_bytes,
        0.0,
    )


@pytest.mark.parametrize("acks", [1, 0])
def test_a_throttled_connection_is_answered_at_once_and_then_muted(
    floodmark: BrokerThread, client: RawClient, acks: int
) -> None:
    plug_in(floodmark, quotas=Throttles(THROTTLE_MS))
    begin = time.monotonic()
    request = produce_request("t", acks=acks)
    if acks:
        assert client.ask(request, PRODUCE_VERSION).throttle_time_ms == THROTTLE_MS
    else:
        client.send_frame(request_bytes(request, PRODUCE_VERSION))
    client.ask(ApiVersionsRequest(), 0)
    assert time.monotonic() - begin >= THROTTLE_MS / 1000
    assert not connection_of(floodmark).state.is_muted


def test_a_waiting_request_is_throttled_when_it_is_answered(
    floodmark: BrokerThread, client: RawClient
) -> None:
    plug_in(floodmark, quotas=Throttles(THROTTLE_MS))
    begin = time.monotonic()
    fetch = fetch_request("t", 0)
    fetch.max_wait_ms, fetch.min_bytes = 1, 1
    client.send_frame(request_bytes(fetch, FETCH_VERSION))
    client.send_frame(request_bytes(ApiVersionsRequest(), 0))
    client.read_frame()
    client.read_frame()
    assert time.monotonic() - begin >= THROTTLE_MS / 1000


def test_a_client_that_leaves_while_it_is_throttled_is_forgotten(
    floodmark: BrokerThread, client: RawClient
) -> None:
    plug_in(floodmark, quotas=Throttles(60_000))
    client.ask(produce_request("t"), PRODUCE_VERSION)
    connection = connection_of(floodmark)
    assert connection.state.is_muted
    client.__exit__(None, None, None)
    with RawClient(floodmark.bootstrap_servers) as another:
        while connection.state.is_open:
            another.ask(ApiVersionsRequest(), 0)


def test_who_has_not_authenticated_may_only_introduce_himself(
    floodmark: BrokerThread, client: RawClient
) -> None:
    client.ask(ApiVersionsRequest(), 0)
    connection_of(floodmark).peer.principal = None
    assert client.ask(ApiVersionsRequest(), 0).api_keys
    assert client.ask(SaslHandshakeRequest(), 1).error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert client.ask(SaslAuthenticateRequest(), 1).error_code == ErrorCode.ILLEGAL_SASL_STATE
    client.send_frame(request_bytes(MetadataRequest(), 9))
    assert client.is_closed()


@pytest.mark.parametrize(
    ("security_protocol", "principal"),
    [("PLAINTEXT", ANONYMOUS), ("SSL", None), ("SASL_PLAINTEXT", None), ("SASL_SSL", None)],
)
def test_only_plaintext_needs_no_authentication(
    security_protocol: str, principal: Principal | None
) -> None:
    assert Peer("id", "127.0.0.1", "NAME", security_protocol).principal is principal
