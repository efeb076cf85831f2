"""Counts records and bytes in and out, by topic and in total. Counters never decrease.

`collecting` reads them with each scrape. The totals include deleted topics: the replica manager
calls `removed` with each removed partition.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple
from uuid import UUID

from floodmark.observability.catalog import OTHER_TOPICS
from floodmark.observability.readings import Readings, Turns
from floodmark.replication.replica import Replica
from floodmark.replication.replica_manager import ReplicaManager

_NAMES = tuple(
    f"kafka_server_brokertopicmetrics_{name}" for name in ("messagesin", "bytesin", "bytesout")
)


class Traffic(NamedTuple):
    messages_in: int = 0
    bytes_in: int = 0
    bytes_out: int = 0

    def plus(self, other: Traffic) -> Traffic:
        return Traffic(*map(sum, zip(self, other, strict=True)))


class TrafficMeter:
    """Counts from its creation on.

    At most `max_topics` topics have their own label at a time. That is decided when a topic is
    first seen, and never changes: moving between a label and `(other)` would decrease one of them.
    """

    def __init__(self, replicas: ReplicaManager, max_topics: int) -> None:
        self._max_topics = max_topics
        self._labelled: set[UUID] = set()
        self._others: set[UUID] = set()
        self._gone = Traffic()
        self._gone_others = Traffic()
        for replica in replicas.replicas:
            replica.count_from_here()
        replicas.on_removed = self.removed

    def removed(self, replica: Replica) -> None:
        traffic = _traffic_of(replica)
        self._gone = self._gone.plus(traffic)
        if replica.topic_id not in self._labelled:
            self._gone_others = self._gone_others.plus(traffic)

    def name_topics(self, topic_ids: Iterable[UUID]) -> tuple[frozenset[UUID], int]:
        """The topics with their own label, and the number of the others."""
        known = dict.fromkeys(topic_ids)
        self._labelled &= known.keys()
        self._others &= known.keys()
        for topic_id in known:
            if topic_id in self._labelled or topic_id in self._others:
                continue
            has_room = len(self._labelled) < self._max_topics
            (self._labelled if has_room else self._others).add(topic_id)
        return frozenset(self._labelled), len(self._others)

    async def read(self, replicas: list[Replica], readings: Readings, turns: Turns) -> None:
        """Counts the given partitions, which must be the current ones: a partition removed from now
        on is still in this list, and not yet among the removed ones."""
        total, others = [self._gone], [self._gone_others]
        by_topic: dict[UUID, tuple[str, list[Traffic]]] = {}
        for replica in replicas:
            of_topic = by_topic.setdefault(replica.topic_id, (replica.key[0], []))
            of_topic[1].append(_traffic_of(replica))
            await turns.pause()
        for topic_id, (name, traffic) in by_topic.items():
            total += traffic
            if topic_id in self._labelled:
                _add(readings, traffic, name)
            else:
                others += traffic
        _add(readings, total)
        if self._others or any(others[0]):
            _add(readings, others, OTHER_TOPICS)


def _add(readings: Readings, traffic: list[Traffic], *labels: str) -> None:
    for name, values in zip(_NAMES, zip(*traffic, strict=True), strict=True):
        readings.add(name, sum(values), *labels)


def _traffic_of(replica: Replica) -> Traffic:
    return Traffic(replica.messages_in, replica.bytes_in, replica.bytes_out)
