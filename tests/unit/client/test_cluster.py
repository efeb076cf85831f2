"""Finding brokers, leaders and topics, and what is tried again."""

import asyncio

import pytest

from floodmark.client.cluster.cluster import Cluster, CoordinatorType
from floodmark.client.cluster.view import TopicPartition
from floodmark.client.errors import (
    ClientClosed,
    ConnectionFailed,
    KafkaError,
    RequestTimedOut,
    UnknownTopic,
)
from floodmark.client.settings import ClientSettings
from floodmark.wire.api_keys import ApiKey
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages.find_coordinator import Coordinator, FindCoordinatorResponse

QUICK = ClientSettings(retry_backoff_ms=1, retry_backoff_max_ms=5, default_api_timeout_ms=2_000)


def cluster_of(scripted: object, settings: ClientSettings = QUICK) -> Cluster:
    return Cluster(scripted.address, settings)  # type: ignore[attr-defined]


async def test_one_bootstrap_server_that_answers_is_enough(scripted) -> None:
    async with Cluster(["127.0.0.1:1", scripted.address], QUICK) as cluster:
        assert cluster.view.cluster_id == "scripted"
        assert cluster.view.controller_id == scripted.node_id


async def test_no_bootstrap_server_that_answers_names_all_of_them() -> None:
    cluster = Cluster("127.0.0.1:1,127.0.0.1:2", QUICK)
    with pytest.raises(ConnectionFailed, match=r"127\.0\.0\.1:1.*127\.0\.0\.1:2"):
        await cluster.connect()
    await cluster.close()


async def test_topics_are_asked_for_once_while_their_metadata_is_young(scripted) -> None:
    scripted.topics["t"] = 2
    async with cluster_of(scripted) as cluster:
        await cluster.topics_of(["t"])
        asked = len(scripted.seen[ApiKey.METADATA])
        await cluster.topics_of(["t"])
        assert len(scripted.seen[ApiKey.METADATA]) == asked
        assert cluster.leader_of(TopicPartition("t", 1)) == scripted.node_id


async def test_a_topic_that_appears_later_is_waited_for(scripted) -> None:
    async with cluster_of(scripted) as cluster:
        waiting = asyncio.create_task(cluster.topics_of(["late"]))
        await scripted.until_seen(ApiKey.METADATA, 3)
        scripted.topics["late"] = 1
        assert "late" in (await waiting).topics


async def test_a_topic_that_never_appears_ends_with_what_was_wrong(scripted) -> None:
    async with cluster_of(scripted) as cluster:
        with pytest.raises(RequestTimedOut, match="topic never does not exist") as raised:
            await cluster.topics_of(["never"], timeout_ms=30)
        assert isinstance(raised.value.reason, UnknownTopic)
        assert raised.value.reason.topic == "never"
        asked = scripted.seen[ApiKey.METADATA]
        await cluster.refresh()
        assert asked[-1].topics == []


async def test_callers_that_come_together_share_one_refresh(scripted) -> None:
    async with cluster_of(scripted) as cluster:
        before = len(scripted.seen[ApiKey.METADATA])
        await asyncio.gather(*(cluster.refresh() for _ in range(10)))
        assert len(scripted.seen[ApiKey.METADATA]) - before <= 2


async def test_only_what_may_pass_is_tried_again(scripted) -> None:
    async with cluster_of(scripted) as cluster:
        attempts = 0

        async def attempt() -> str:
            nonlocal attempts
            attempts += 1
            if attempts < 3:
                raise KafkaError(ErrorCode.NOT_CONTROLLER)
            if attempts == 3:
                raise KafkaError(ErrorCode.INVALID_CONFIG)
            return "done"

        with pytest.raises(KafkaError) as caught:
            await cluster.retry(attempt)
        assert caught.value.code is ErrorCode.INVALID_CONFIG
        assert await cluster.retry(attempt) == "done"


async def test_a_stale_answer_brings_new_metadata_before_the_next_attempt(scripted) -> None:
    async with cluster_of(scripted) as cluster:
        before = len(scripted.seen[ApiKey.METADATA])
        outcomes = iter([KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER), None])

        async def attempt() -> None:
            error = next(outcomes)
            if error is not None:
                raise error

        await cluster.retry(attempt)
        assert len(scripted.seen[ApiKey.METADATA]) == before + 1


@pytest.mark.parametrize("version", [3, 6])
async def test_the_coordinator_is_found_in_the_single_and_the_batched_form(
    scripted, version: int
) -> None:
    scripted.version_limits[ApiKey.FIND_COORDINATOR] = version

    def answer(request, version: int) -> FindCoordinatorResponse:
        if version >= 4:
            found = Coordinator(
                key=request.coordinator_keys[0], node_id=1, host="127.0.0.1", port=scripted.port
            )
            return FindCoordinatorResponse(coordinators=[found])
        return FindCoordinatorResponse(node_id=1, host="127.0.0.1", port=scripted.port)

    scripted.on[ApiKey.FIND_COORDINATOR] = answer
    async with cluster_of(scripted) as cluster:
        for _ in range(2):
            connection = await cluster.coordinator_connection(CoordinatorType.GROUP, "g")
            assert connection.address.port == scripted.port
        assert len(scripted.seen[ApiKey.FIND_COORDINATOR]) == 1
        cluster.forget_coordinator(CoordinatorType.GROUP, "g")
        await cluster.coordinator_connection(CoordinatorType.GROUP, "g")
        assert len(scripted.seen[ApiKey.FIND_COORDINATOR]) == 2


async def test_a_closed_cluster_says_so(scripted) -> None:
    cluster = cluster_of(scripted)
    await cluster.connect()
    await cluster.close()
    with pytest.raises(ClientClosed):
        await cluster.refresh()
