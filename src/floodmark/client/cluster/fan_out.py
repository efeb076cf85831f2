"""Asks the leaders of many partitions at once, and retries those that could not answer yet.

Used by admin and consumer for ListOffsets, DeleteRecords and DescribeProducers. Also asks all
brokers for what only they know together, such as the list of groups.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TypeVar

from floodmark.client.cluster.cluster import Cluster
from floodmark.client.cluster.connection import Connection
from floodmark.client.cluster.silent_brokers import LeaderAsked
from floodmark.client.cluster.view import TopicPartition
from floodmark.client.errors import KafkaError

V = TypeVar("V")
R = TypeVar("R")

Ask = Callable[
    [Connection, Mapping[TopicPartition, V]], Awaitable[dict[TopicPartition, R | KafkaError]]
]


async def ask_leaders(
    cluster: Cluster,
    items: Mapping[TopicPartition, V],
    ask: Ask[V, R],
    *,
    timeout_ms: float | None = None,
) -> dict[TopicPartition, R | KafkaError]:
    """The response per partition, or the last error if time ran out."""
    results: dict[TopicPartition, R | KafkaError] = {}
    remaining = dict(items)

    async def attempt() -> None:
        nonlocal remaining
        await cluster.topics_of({p.topic for p in remaining}, timeout_ms=timeout_ms)
        results.update(await ask_leaders_once(cluster, remaining, ask))
        failed = {p: r for p, r in results.items() if isinstance(r, KafkaError) and r.retriable}
        remaining = {partition: items[partition] for partition in failed}
        for error in failed.values():
            raise error

    try:
        await cluster.retry(attempt, timeout_ms=timeout_ms)
    except KafkaError:
        # Every partition carries its own error. Raise only if we reached none.
        if not results:
            raise
    return results


async def ask_brokers(cluster: Cluster, ask: Callable[[Connection], Awaitable[R]]) -> list[R]:
    """The responses of all brokers. Fails if one fails, as the result would be incomplete."""

    async def ask_one(node_id: int) -> R:
        async def attempt() -> R:
            return await ask(await cluster.connection_to(node_id))

        return await cluster.retry(attempt)

    await cluster.retry(cluster.refresh)
    return list(await asyncio.gather(*(ask_one(node_id) for node_id in cluster.view.brokers)))


def group_by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[TopicPartition]]:
    grouped: dict[str, list[TopicPartition]] = defaultdict(list)
    for partition in partitions:
        grouped[partition.topic].append(partition)
    return grouped


async def ask_leaders_once(
    cluster: Cluster, items: Mapping[TopicPartition, V], ask: Ask[V, R]
) -> dict[TopicPartition, R | KafkaError]:
    """One attempt: the response or the error per partition."""
    results: dict[TopicPartition, R | KafkaError] = {}
    view = cluster.view
    by_leader: dict[int, dict[TopicPartition, V]] = defaultdict(dict)
    for partition, item in items.items():
        try:
            by_leader[cluster.leader_of(partition)][partition] = item
        except KafkaError as error:
            results[partition] = error

    async def ask_one(leader: int, share: Mapping[TopicPartition, V]) -> None:
        try:
            async with cluster.silent_brokers.attempt(LeaderAsked(leader, share, view)):
                results.update(await ask(await cluster.connection_to(leader), share))
        except KafkaError as error:
            results.update(dict.fromkeys(share, error))

    await asyncio.gather(*(ask_one(leader, share) for leader, share in by_leader.items()))
    return results
