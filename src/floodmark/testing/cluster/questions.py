"""Queries a test cluster's brokers: leaders, in-sync replicas, the controller.

Used by `cluster.py`. Asks the brokers' own ports instead of the proxies, so it also works for a
broker that is cut off.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping

from floodmark.client.cluster.connection import Connection, ConnectionOptions
from floodmark.client.errors import KafkaError
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponsePartition,
)

_OPTIONS = ConnectionOptions(client_id="test-cluster", request_timeout_ms=5000)


async def ask_all(
    ports: Mapping[int, int], topic: str | None = None
) -> dict[int, MetadataResponse]:
    """The responses by broker. Omits brokers that do not respond."""
    answers = await asyncio.gather(*(_ask(port, topic) for port in ports.values()))
    return {
        broker: answer for broker, answer in zip(ports, answers, strict=True) if answer is not None
    }


async def _ask(port: int, topic: str | None) -> MetadataResponse | None:
    topics = [] if topic is None else [MetadataRequestTopic(name=topic)]
    request = MetadataRequest(topics=topics, allow_auto_topic_creation=False)
    try:
        connection = await Connection.open("127.0.0.1", port, _OPTIONS)
        try:
            answer: MetadataResponse = await connection.request(request)
            return answer
        finally:
            await connection.close()
    except KafkaError:
        return None


def partitions_of(answer: MetadataResponse) -> list[MetadataResponsePartition]:
    """The partitions of the requested topic. Empty if the broker does not know it yet."""
    (topic,) = answer.topics
    return topic.partitions if topic.error_code == ErrorCode.NONE else []


def newest(
    answers: Mapping[int, MetadataResponse], partition: int
) -> MetadataResponsePartition | None:
    """Brokers learn of changes one by one, so the highest leader epoch is the latest.

    Within an epoch, the controller knows first.
    """
    known = [
        (one.leader_epoch, answer.controller_id == broker, one)
        for broker, answer in answers.items()
        for one in partitions_of(answer)
        if one.partition_index == partition
    ]
    return max(known, key=lambda found: found[:2])[2] if known else None


def agreed_controller(answers: Iterable[MetadataResponse]) -> int:
    """The broker most brokers consider the controller, or -1 if none is known."""
    named = Counter(answer.controller_id for answer in answers)
    return named.most_common(1)[0][0] if named else -1
