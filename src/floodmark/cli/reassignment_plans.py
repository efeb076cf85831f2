"""Parses reassignment plans from the command line or a file of Kafka's tool. PURE.

Used by `floodmark partition reassign`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from floodmark.client.cluster.view import TopicPartition, TopicView

Plan = dict[TopicPartition, list[int]]


def parse_moves(texts: Iterable[str]) -> Plan:
    """Parses `orders:0=2,3`: move partition 0 of orders to brokers 2 and 3, preferred leader 2."""
    plan: Plan = {}
    for text in texts:
        partition, equals, brokers = text.partition("=")
        if not equals:
            raise ValueError(f"'{text}' is not of the form topic:partition=broker,broker")
        plan[parse_partition(partition)] = parse_brokers(brokers)
    return plan


def parse_partition(text: str) -> TopicPartition:
    topic, _, index = text.rpartition(":")
    if not topic or not index.isdecimal():
        raise ValueError(f"'{text}' is not of the form topic:partition")
    return TopicPartition(topic, int(index))


def parse_brokers(text: str) -> list[int]:
    try:
        return [int(broker) for broker in text.split(",")]
    except ValueError:
        raise ValueError(f"'{text}' is not a list of broker ids such as 1,2,3") from None


def parse_file(text: str) -> Plan:
    """Parses the JSON of kafka-reassign-partitions. Ignores its log directories."""
    try:
        moves = json.loads(text)["partitions"]
        return {
            TopicPartition(str(one["topic"]), int(one["partition"])): list(
                map(int, one["replicas"])
            )
            for one in moves
        }
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(
            'not a plan like {"version": 1, "partitions": [{"topic": "t", "partition": 0, '
            f'"replicas": [1, 2]}}]}}: {type(error).__name__}: {error}'
        ) from error


def spread(topic: TopicView, brokers: Sequence[int]) -> Plan:
    """Spreads a topic's partitions over these brokers, keeping the number of replicas.

    Replicas on these brokers stay; the others go round-robin over the brokers.
    """
    return {
        TopicPartition(topic.name, index): _placed(index, partition.replicas, brokers)
        for index, partition in sorted(topic.partitions.items())
    }


def _placed(index: int, replicas: Sequence[int], brokers: Sequence[int]) -> list[int]:
    if len(brokers) < len(replicas):
        raise ValueError(
            f"{len(replicas)} replicas need as many brokers, but only {len(brokers)} are given"
        )
    kept = [replica for replica in replicas if replica in brokers]
    start = index % len(brokers)
    others = [b for b in (*brokers[start:], *brokers[:start]) if b not in kept]
    return (kept + others)[: len(replicas)]
