"""A broker with quotas: they are altered, found, kept, and throttle whom they are for."""

import asyncio
import socket
from collections.abc import Iterator, Mapping, Sequence

import pytest

from floodmark.apis.client_quotas import ClientQuotas
from floodmark.security.quota_entities import LONGEST_ID
from floodmark.testing.broker_thread import BrokerThread
from floodmark.testing.virtual_clock import VirtualClock
from floodmark.wire.api_keys import ApiKey
from floodmark.wire.compiler import encode
from floodmark.wire.errors import ErrorCode
from floodmark.wire.headers import RequestHeader, encode_request_header
from floodmark.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    OpData,
    RequestEntityData,
    RequestEntryData,
)
from floodmark.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from floodmark.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from floodmark.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from floodmark.wire.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
)
from floodmark.wire.messages.metadata import MetadataRequest
from fuzz_kit.raw_client import RawClient, request_bytes
from kit.flushed import NEVER_FLUSHED
from kit.plain_requests import fetch_request, produce_request

CLIENT = "raw"
"""The client id that RawClient sends."""

EXACT, DEFAULT, SPECIFIED = 0, 1, 2


@pytest.fixture
def floodmark_settings() -> Mapping[str, str]:
    return NEVER_FLUSHED


@pytest.fixture
def client(floodmark: BrokerThread) -> Iterator[RawClient]:
    floodmark.create_topic("t")
    with RawClient(floodmark.bootstrap_servers) as client:
        yield client


Entity = Mapping[str, str | None]


def alter(
    client: RawClient,
    entity: Entity,
    values: Mapping[str, float | None] | Sequence[tuple[str, float | None]],
    *,
    validate_only: bool = False,
) -> tuple[int, str | None]:
    steps = values.items() if isinstance(values, Mapping) else values
    request = AlterClientQuotasRequest(
        entries=[
            RequestEntryData(
                entity=[
                    RequestEntityData(entity_type=kind, entity_name=name)
                    for kind, name in entity.items()
                ],
                ops=[OpData(key=key, value=v or 0.0, remove=v is None) for key, v in steps],
            )
        ],
        validate_only=validate_only,
    )
    (entry,) = client.ask(request, 1).entries
    assert {part.entity_type: part.entity_name for part in entry.entity} == entity
    return entry.error_code, entry.error_message


def described(
    client: RawClient, *components: tuple[str, int, str | None], strict: bool = False
) -> list[tuple[dict[str, str | None], dict[str, float]]]:
    request = DescribeClientQuotasRequest(
        components=[
            ComponentData(entity_type=kind, match_type=match_type, match=match)
            for kind, match_type, match in components
        ],
        strict=strict,
    )
    answer = client.ask(request, 1)
    assert answer.error_code == 0, answer.error_message
    return [
        (
            {part.entity_type: part.entity_name for part in entry.entity},
            {value.key: value.value for value in entry.values},
        )
        for entry in answer.entries
    ]


ALICE = {"user": "alice"}
ALICE_APP = {"user": "alice", "client-id": "app"}
ANY_APP = {"user": None, "client-id": "app"}
APP = {"client-id": "app"}
LOCAL = {"ip": "127.0.0.1"}


def test_quotas_are_altered_found_and_kept(floodmark: BrokerThread, client: RawClient) -> None:
    rate = {"producer_byte_rate": 1024.0}
    for entity in (ALICE, ALICE_APP, ANY_APP, APP):
        assert alter(client, entity, rate) == (0, None)
    assert alter(client, LOCAL, {"connection_creation_rate": 50.0}) == (0, None)
    assert alter(client, ALICE, {"request_percentage": 12.5}) == (0, None)
    expected = [
        (ALICE, {**rate, "request_percentage": 12.5}),
        (ALICE_APP, rate),
        (ANY_APP, rate),
        (APP, rate),
        (LOCAL, {"connection_creation_rate": 50.0}),
    ]
    found = described(client)
    assert sorted(map(str, found)) == sorted(map(str, expected))
    assert {tuple(e) for e, _ in described(client, ("user", SPECIFIED, None))} == {
        ("user",),
        ("user", "client-id"),
    }
    assert [e for e, _ in described(client, ("user", DEFAULT, None))] == [ANY_APP]
    assert [e for e, _ in described(client, ("user", EXACT, "alice"), strict=True)] == [ALICE]
    assert [e for e, _ in described(client, ("client-id", EXACT, "app"), strict=True)] == [APP]
    assert alter(client, ALICE, dict.fromkeys(["producer_byte_rate", "request_percentage"])) == (
        0,
        None,
    )
    floodmark.stop()
    floodmark.start()
    with RawClient(floodmark.bootstrap_servers) as again:
        kept = described(again)
        assert sorted(map(str, kept)) == sorted(map(str, expected[1:]))


@pytest.mark.parametrize(
    ("entity", "values", "text"),
    [
        ({}, {"producer_byte_rate": 1.0}, "Invalid empty client quota entity"),
        ({"planet": "mars"}, {}, "Unhandled client quota entity type: planet"),
        ({"user": ""}, {}, "Empty user not supported"),
        (ALICE, {"bytes": 1.0}, "Invalid configuration key bytes"),
        (ALICE, {"producer_byte_rate": 0.0}, "Quota producer_byte_rate must be greater than 0"),
        (ALICE, {"producer_byte_rate": 1.5}, "producer_byte_rate cannot be a fractional value."),
        (
            LOCAL,
            {"connection_creation_rate": 2.0**31},
            "Proposed value for connection_creation_rate is too large for an INT.",
        ),
        (LOCAL, {"producer_byte_rate": 1.0}, "Invalid configuration key producer_byte_rate"),
        (
            {"ip": "no such host"},
            {"connection_creation_rate": 1.0},
            "no such host is not a valid IP or resolvable host.",
        ),
    ],
)
def test_what_is_refused(
    client: RawClient, entity: Entity, values: Mapping[str, float], text: str
) -> None:
    assert alter(client, entity, values) == (ErrorCode.INVALID_REQUEST, text)
    assert described(client) == []


def test_a_validation_changes_nothing(client: RawClient) -> None:
    rate = {"producer_byte_rate": 1024.0}
    assert alter(client, ALICE, rate, validate_only=True) == (0, None)
    assert described(client) == []


@pytest.mark.parametrize(
    ("components", "code"),
    [
        ([("", EXACT, "x")], ErrorCode.INVALID_REQUEST),
        ([("user", EXACT, None)], ErrorCode.INVALID_REQUEST),
        ([("user", DEFAULT, "x")], ErrorCode.INVALID_REQUEST),
        ([("user", 7, None)], ErrorCode.INVALID_REQUEST),
        ([("user", EXACT, "a"), ("user", EXACT, "b")], ErrorCode.INVALID_REQUEST),
        ([("user", EXACT, "a"), ("ip", EXACT, "b")], ErrorCode.INVALID_REQUEST),
        ([("planet", EXACT, "mars")], ErrorCode.UNSUPPORTED_VERSION),
    ],
)
def test_filters_that_mean_nothing(
    client: RawClient, components: list[tuple[str, int, str | None]], code: ErrorCode
) -> None:
    request = DescribeClientQuotasRequest(
        components=[ComponentData(entity_type=k, match_type=t, match=m) for k, t, m in components]
    )
    answer = client.ask(request, 1)
    assert (answer.error_code, answer.entries) == (code, None)


# Throttling, by a clock that stands still unless it is moved


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def limited(clock: VirtualClock) -> Iterator[BrokerThread]:
    settings = {**NEVER_FLUSHED, "log.retention.ms": "-1"}
    with BrokerThread(settings=settings, clock=clock) as broker:
        broker.create_topic("t")
        yield broker


def ask_throttled(client: RawClient, clock: VirtualClock, request: object, version: int) -> int:
    """The throttle time of the answer; the clock passes it, so that the next request is read."""
    answer = client.ask(request, version)
    clock.advance(answer.throttle_time_ms)
    throttle_time_ms: int = answer.throttle_time_ms
    return throttle_time_ms


def let_pass(broker: BrokerThread, clock: VirtualClock, throttle_ms: int) -> None:
    """The time of a throttled answer that did not come at once: the connection is muted a moment
    after it was sent."""
    broker.call(asyncio.sleep(0))
    clock.advance(throttle_ms)


def test_a_producer_gets_its_quota(limited: BrokerThread, clock: VirtualClock) -> None:
    with RawClient(limited.bootstrap_servers) as client:
        assert alter(client, {"client-id": CLIENT}, {"producer_byte_rate": 1000.0}) == (0, None)
        size, produced = len(request_bytes(produce_request("t"), 12)), 0
        begin_ms = clock.monotonic_ms()
        while clock.monotonic_ms() - begin_ms < 60_000:
            ask_throttled(client, clock, produce_request("t"), 12)
            produced += size
        assert produced == pytest.approx(60_000, rel=0.1)


def test_a_consumer_gets_its_quota_and_loses_nothing(
    limited: BrokerThread, clock: VirtualClock
) -> None:
    with RawClient(limited.bootstrap_servers) as client:
        client.ask(produce_request("t"), 12)
        size = len(client.ask(fetch_request("t", 0), 12).responses[0].partitions[0].records)
        alter(client, {"client-id": CLIENT}, {"consumer_byte_rate": float(size)})
        full = 0
        begin_ms = clock.monotonic_ms()
        while clock.monotonic_ms() - begin_ms < 60_000:
            answer = client.ask(fetch_request("t", 0), 12)
            clock.advance(answer.throttle_time_ms)
            # Nothing is sent with a throttle time: the client asks for the same again.
            assert bool(answer.responses) != bool(answer.throttle_time_ms)
            full += bool(answer.responses)
        assert full == pytest.approx(60, rel=0.1)


def test_what_was_measured_is_told(limited: BrokerThread, clock: VirtualClock) -> None:
    with RawClient(limited.bootstrap_servers) as client:
        alter(client, {"client-id": CLIENT}, {"producer_byte_rate": 1000.0})
        times = [ask_throttled(client, clock, produce_request("t"), 12) for _ in range(200)]
        (measured,) = limited.broker.quotas.measured()
        assert measured[:3] == ("producer_byte_rate", "", CLIENT)
        assert measured.per_second == pytest.approx(1000, rel=0.1)
        assert min(filter(None, times)) <= measured.throttle_ms <= max(times)
        clock.advance(60_000)
        assert list(limited.broker.quotas.measured()) == [], "nobody was here lately"


def test_long_client_ids_are_not_kept(limited: BrokerThread) -> None:
    """They have up to 32 KB, and clients make up as many as they like."""
    with RawClient(limited.bootstrap_servers) as client:
        alter(client, {"client-id": None}, {"request_percentage": 1000.0})
        header = RequestHeader(ApiKey.METADATA, 9, 1, "x" * 32_000)
        client.send_frame(encode_request_header(header) + encode(MetadataRequest(topics=[]), 9))
        client.read_frame()
    quotas = limited.broker.quotas
    assert isinstance(quotas, ClientQuotas)
    assert len(quotas._clients) == 2, "this client id and that of RawClient"
    kept = [*quotas._clients, *(sharers for _, sharers in quotas._rates)]
    assert max(len(name) for names in kept for name in names) <= LONGEST_ID


def test_others_are_not_slowed(limited: BrokerThread, clock: VirtualClock) -> None:
    with RawClient(limited.bootstrap_servers) as client:
        alter(client, {"client-id": "somebody else"}, {"producer_byte_rate": 1.0})
        times = [ask_throttled(client, clock, produce_request("t"), 12) for _ in range(20)]
        assert times == [0] * 20


def test_a_removed_quota_ends_throttling_at_once(
    limited: BrokerThread, clock: VirtualClock
) -> None:
    with RawClient(limited.bootstrap_servers) as client:
        alter(client, {"user": "ANONYMOUS"}, {"producer_byte_rate": 10.0})
        times = [ask_throttled(client, clock, produce_request("t"), 12) for _ in range(5)]
        assert times[-1] > 0
        alter(client, {"user": "ANONYMOUS"}, {"producer_byte_rate": None})
        assert ask_throttled(client, clock, produce_request("t"), 12) == 0
        assert limited.broker.services.quotas.is_unlimited


def test_time_on_the_loop_is_limited(floodmark: BrokerThread, client: RawClient) -> None:
    alter(client, {"client-id": CLIENT}, {"request_percentage": 0.001})
    answers = [client.ask(MetadataRequest(topics=None), 12) for _ in range(2)]
    assert 0 < answers[-1].throttle_time_ms <= 1000
    alter(client, {"client-id": CLIENT}, {"request_percentage": None})
    assert client.ask(produce_request("t"), 12).throttle_time_ms == 0


def test_topic_changes_above_the_quota_are_refused(
    limited: BrokerThread, clock: VirtualClock
) -> None:
    client: RawClient

    def create(*names: str) -> tuple[list[int], int]:
        topics = [
            CreatableTopic(name=name, num_partitions=4, replication_factor=1) for name in names
        ]
        answer = client.ask(CreateTopicsRequest(topics=topics, timeout_ms=1000), 7)
        let_pass(limited, clock, answer.throttle_time_ms)
        return [topic.error_code for topic in answer.topics], answer.throttle_time_ms

    exceeded = ErrorCode.THROTTLING_QUOTA_EXCEEDED
    with RawClient(limited.bootstrap_servers) as client:
        # The burst is 11 windows of a second: 11 partitions.
        alter(client, {"client-id": CLIENT}, {"controller_mutation_rate": 1.0})
        assert create("a", "b", "c", "d") == ([0, 0, 0, exceeded], 1000)
        assert create("a") == ([ErrorCode.TOPIC_ALREADY_EXISTS], 0)
        assert create("d") == ([0], 0)
        grow = CreatePartitionsRequest(topics=[CreatePartitionsTopic(name="a", count=8)])
        answer = client.ask(grow, 3)
        assert [topic.error_code for topic in answer.results] == [exceeded]
        assert answer.throttle_time_ms == 4000
        let_pass(limited, clock, 4000)
        delete = DeleteTopicsRequest(topics=[DeleteTopicState(name="a")], timeout_ms=1000)
        assert client.ask(delete, 6).responses[0].error_code == 0
        answer = client.ask(
            DeleteTopicsRequest(topics=[DeleteTopicState(name="b")], timeout_ms=1000), 6
        )
        assert [topic.error_code for topic in answer.responses] == [exceeded]


def test_old_clients_wait_for_their_topic_changes_instead(
    limited: BrokerThread, clock: VirtualClock
) -> None:
    with RawClient(limited.bootstrap_servers) as client:
        alter(client, {"client-id": CLIENT}, {"controller_mutation_rate": 1.0})
        topics = [CreatableTopic(name="a", num_partitions=14, replication_factor=1)]
        answer = client.ask(CreateTopicsRequest(topics=topics, timeout_ms=1000), 5)
        assert (answer.topics[0].error_code, answer.throttle_time_ms) == (0, 3000)


def test_an_address_that_connects_too_fast_is_hung_up_on(
    floodmark: BrokerThread, client: RawClient
) -> None:
    assert alter(client, LOCAL, {"connection_creation_rate": 1.0}) == (0, None)
    host, port = floodmark.bootstrap_servers.split(":")
    accepted = []
    # Ten windows of a second are free at first.
    for _ in range(14):
        with socket.create_connection((host, int(port)), 10) as one:
            one.settimeout(0.2)
            try:
                accepted.append(one.recv(1) != b"")
            except TimeoutError:
                accepted.append(True)
    assert accepted[:10] == [True] * 10
    assert floodmark.broker.network.limits.rates.throttled > 0
