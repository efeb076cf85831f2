"""A request of 4 KB stops nobody else and takes little memory, whatever it holds.

Every bomb goes to every place that looks into records. Then each API gets 4 KB of as many entries
as fit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from random import Random
from uuid import UUID

import pytest

from floodmark.apis.dispatch import SERVED
from floodmark.wire.api_keys import ApiKey
from floodmark.wire.compiler import encode
from floodmark.wire.errors import ErrorCode
from floodmark.wire.headers import RequestHeader, encode_request_header
from floodmark.wire.messages import request_class
from floodmark.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from floodmark.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from floodmark.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from floodmark.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from fuzz_kit.bombs import NOW_MS, bombs
from fuzz_kit.floods import floods
from fuzz_kit.gauge import MOST_BYTES, Gauge
from fuzz_kit.pools import FUZZ_TOPICS
from fuzz_kit.raw_client import RawClient
from kit.watched_broker import WatchedBroker, start_watched_broker

PARTITIONS = 50

TOPICS: dict[str, dict[str, str]] = {
    "plain": {},
    "compacted": {"cleanup.policy": "compact"},
    "gzip": {"compression.type": "gzip"},
    "zstd": {"compression.type": "zstd"},
    "uncompressed": {"compression.type": "uncompressed"},
    "timed": {"message.timestamp.before.max.ms": "3600000"},
}
SETTINGS = {
    "auto.create.topics.enable": "false",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
}


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WatchedBroker]:
    watched = start_watched_broker(tmp_path_factory.mktemp("bombs"), SETTINGS)
    with watched.broker.process, RawClient(watched.broker.bootstrap) as client:
        client.ask(
            CreateTopicsRequest(
                topics=[
                    CreatableTopic(
                        name=name,
                        num_partitions=PARTITIONS,
                        replication_factor=1,
                        configs=[
                            CreatableTopicConfig(name=key, value=value)
                            for key, value in configs.items()
                        ],
                    )
                    for name, configs in (*TOPICS.items(), *((name, {}) for name in FUZZ_TOPICS))
                ],
                timeout_ms=60_000,
            ),
            5,
        )
        # What is loaded with the first request of its kind has no part in this.
        client.ask(produce_request("plain", {0: b""}), 9)
        client.ask(by_time("plain", {0: NOW_MS}), 7)
        yield watched


def produce_request(topic: str, batches: Mapping[int, bytes]) -> ProduceRequest:
    partitions = [
        PartitionProduceData(index=index, records=batch) for index, batch in batches.items()
    ]
    return ProduceRequest(
        acks=-1,
        timeout_ms=30_000,
        topic_data=[TopicProduceData(name=topic, partition_data=partitions)],
    )


def by_time(topic: str, timestamps: Mapping[int, int]) -> ListOffsetsRequest:
    partitions = [
        ListOffsetsPartition(partition_index=index, timestamp=timestamp)
        for index, timestamp in timestamps.items()
    ]
    topics = [ListOffsetsTopic(name=topic, partitions=partitions)]
    return ListOffsetsRequest(replica_id=-1, topics=topics)


def topic_ids(client: RawClient) -> list[UUID]:
    topics = [MetadataRequestTopic(name=name) for name in (*TOPICS, *FUZZ_TOPICS)]
    return [topic.topic_id for topic in client.ask(MetadataRequest(topics=topics), 12).topics]


@pytest.mark.parametrize("topic", TOPICS)
def test_a_bomb_stops_nobody_where_records_are_looked_into(
    watched: WatchedBroker, topic: str
) -> None:
    gauge = Gauge(watched)
    stored = 0
    for index, (name, batch) in enumerate(bombs()):
        assert len(batch) < MOST_BYTES, name
        answer = gauge.ask(f"produce {name}", produce_request(topic, {index: batch}), 9)
        error_code = answer.responses[0].partition_responses[0].error_code
        if topic == "plain" and "far fewer" not in name:
            assert error_code == ErrorCode.NONE, name
        stored += error_code == ErrorCode.NONE
        for timestamp in (NOW_MS, NOW_MS + 10, -3):
            gauge.ask(f"{name} at {timestamp}", by_time(topic, {index: timestamp}), 7)
    print(f"{stored} of {len(bombs())} bombs were stored")
    gauge.ask("all at once", by_time(topic, dict.fromkeys(range(PARTITIONS), NOW_MS + 10)), 7)
    gauge.finish()


@pytest.mark.parametrize("topic", TOPICS)
def test_many_bombs_in_one_request_stop_nobody(watched: WatchedBroker, topic: str) -> None:
    gauge = Gauge(watched)
    for name, batch in bombs():
        count = min(PARTITIONS, (MOST_BYTES - 100) // (len(batch) + 10))
        request = produce_request(topic, dict.fromkeys(range(count), batch))
        assert len(encode(request, 9)) < MOST_BYTES
        gauge.ask(f"{count} times {name}", request, 9)
    gauge.finish()


@pytest.mark.parametrize("api_key", SERVED, ids=lambda key: key.name)
def test_4_kb_of_entries_stop_nobody(watched: WatchedBroker, api_key: ApiKey) -> None:
    gauge = Gauge(watched)
    ids = topic_ids(gauge.client)
    served = SERVED[api_key]
    for version in sorted({served.lowest, served.highest}):
        header = encode_request_header(RequestHeader(api_key, version, 7, "gauge"))
        most_bytes = MOST_BYTES - len(header)
        cls = request_class(api_key)
        for what, body in floods(cls, version, Random(13), ids, most_bytes):
            gauge.fire(f"v{version} {what}", header + body)
        # As many entries, claimed and not there.
        for claim in (b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff\x07", b"\x01"):
            gauge.fire(f"v{version} {claim!r}", header + claim * (most_bytes // len(claim)))
    gauge.finish()
