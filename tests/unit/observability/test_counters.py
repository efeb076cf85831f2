"""Counters never go back, and failures are among them."""

import pytest

from floodmark.replication.partition import Leadership
from floodmark.testing.broker_thread import BrokerThread
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from fuzz_kit.raw_client import RawClient, request_bytes
from kit.plain_requests import delete, fetch_request, produce, produce_request
from kit.scraping import Watcher

MESSAGES_IN = "kafka_server_brokertopicmetrics_messagesin_total"
BYTES_IN = "kafka_server_brokertopicmetrics_bytesin_total"
BYTES_OUT = "kafka_server_brokertopicmetrics_bytesout_total"
ERRORS = "kafka_network_requestmetrics_errors_total"


def test_totals_survive_a_deleted_topic(floodmark: BrokerThread, watcher: Watcher) -> None:
    for name, count in (("kept", 3), ("deleted", 5)):
        produce(floodmark, floodmark.create_topic(name), count)
        with RawClient(floodmark.bootstrap_servers) as client:
            client.ask(fetch_request(name, 0), 11)
    before = watcher.scrape()
    assert before.of(MESSAGES_IN) == 8
    assert before.of(MESSAGES_IN, topic="deleted") == 5
    floodmark.call(delete(floodmark, "deleted"))
    after = watcher.scrape()
    for name in (MESSAGES_IN, BYTES_IN, BYTES_OUT):
        assert after.of(name) == before.of(name) > 0
        assert [labels for labels, _ in after.all(name)] == [{"topic": "kept"}, {}]
    produce(floodmark, "kept", 1)
    assert watcher.scrape().of(MESSAGES_IN) == 9


def test_a_topic_that_comes_again_under_its_name_begins_at_nothing(
    floodmark: BrokerThread, watcher: Watcher
) -> None:
    produce(floodmark, floodmark.create_topic("t"), 5)
    floodmark.call(delete(floodmark, "t"))
    produce(floodmark, floodmark.create_topic("t"), 2)
    samples = watcher.scrape()
    assert (samples.of(MESSAGES_IN), samples.of(MESSAGES_IN, topic="t")) == (7, 2)


class TestWithOneLabel:
    @pytest.fixture
    def floodmark_settings(self) -> dict[str, str]:
        return {"floodmark.metrics.max.topics": "1"}

    def test_what_is_summed_up_never_goes_back(
        self, floodmark: BrokerThread, watcher: Watcher
    ) -> None:
        produce(floodmark, floodmark.create_topic("labelled"), 1)
        watcher.scrape()
        for name in ("b", "c"):
            produce(floodmark, floodmark.create_topic(name), 10)
        assert watcher.scrape().of(MESSAGES_IN, topic="(other)") == 20
        # Neither one of the others nor the labelled one, whose place is free then.
        for deleted in ("b", "labelled"):
            floodmark.call(delete(floodmark, deleted))
            samples = watcher.scrape()
            assert samples.of(MESSAGES_IN, topic="(other)") == 20
            assert samples.of(MESSAGES_IN) == 21
        produce(floodmark, floodmark.create_topic("late"), 4)
        samples = watcher.scrape()
        assert samples.of(MESSAGES_IN, topic="late") == 4
        assert samples.of(MESSAGES_IN, topic="(other)") == 20


def test_failed_requests_are_counted_by_error(
    floodmark: BrokerThread, watcher: Watcher, floodmark_topic: str
) -> None:
    with RawClient(floodmark.bootstrap_servers) as client:
        client.ask(produce_request("not-there"), 9)
        client.ask(produce_request("not-there"), 9)
        client.ask(produce_request(floodmark_topic), 9)
        client.ask(fetch_request(floodmark_topic, 77), 11)
        client.ask(fetch_request(floodmark_topic, 0), 11)
        no_group = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="")])
        client.ask(no_group, 8)
    samples = watcher.scrape()
    failed = "kafka_server_brokertopicmetrics_failed{}requests_total"
    assert samples.of(failed.format("produce")) == 2
    assert samples.of(failed.format("fetch")) == 1
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION.name
    assert samples.of(ERRORS, request="Produce", error=unknown) == 2
    assert samples.of(ERRORS, request="Fetch", error="OFFSET_OUT_OF_RANGE") == 1
    assert {labels["error"] for labels, _ in samples.all(ERRORS)}.isdisjoint({"NONE"})


def test_an_unanswered_produce_that_fails_is_counted(
    floodmark: BrokerThread, watcher: Watcher
) -> None:
    with RawClient(floodmark.bootstrap_servers) as client:
        client.send_frame(request_bytes(produce_request("not-there", acks=0), 9))
        assert client.is_closed()
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION.name
    assert watcher.scrape().of(ERRORS, request="Produce", error=unknown) == 1


def test_a_leader_counts_how_its_in_sync_replicas_change(
    floodmark: BrokerThread, watcher: Watcher, floodmark_topic: str
) -> None:
    me = floodmark.broker.broker_id
    replicas = floodmark.broker.replicas

    async def decide(epoch: int, leader: int, *in_sync: int) -> None:
        replica = replicas.find((floodmark_topic, 0))
        assert replica is not None
        decision = Leadership(leader, epoch, epoch, in_sync, (me, 8, 9))
        replicas.lead_or_follow(replica, decision)

    floodmark.call(decide(1, me, me, 8, 9))
    floodmark.call(decide(2, me, me))
    floodmark.call(decide(3, me, me, 8))
    # Of what another leads, that one counts.
    floodmark.call(decide(4, 8, 8, 9, me))
    floodmark.call(decide(5, 8, 8))
    samples = watcher.scrape()
    assert samples.of("kafka_server_replicamanager_isrshrinks_total") == 1
    assert samples.of("kafka_server_replicamanager_isrexpands_total") == 2
