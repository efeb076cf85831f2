"""Records and bytes in and out, by topic and in all. Counters: they never go back.

`collecting` asks for them with each scrape. What a deleted topic did stays in the totals: the
replica manager calls `removed` with each partition that goes.
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
    """Counts from its making on.

    At most `max_topics` topics have a label of their own at a time. Which ones is decided when a
    topic is first seen, and stays: moving between a label and `(other)` would turn both back.
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
        """Which of all topics have labels of their own, and how many have not."""
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
        """Of these, which must be those of this moment: what goes from now on is in the list, and
        not yet among those that are gone."""
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
