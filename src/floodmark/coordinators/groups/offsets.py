"""The committed offsets of a shard's groups, and those of open transactions. PURE.

`put`, `remove` and `end_transaction` are the replay side; the rest reads. A transactional commit is
pending until its producer's marker. Then it counts, unless the group has committed later by other
means. The log's order decides, because compaction may have removed records in between.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from floodmark.coordinators.groups.records import CommittedOffset, OffsetRecord
from floodmark.vocabulary import TopicPartition

Partitions = dict[int, CommittedOffset]
Topics = dict[str, Partitions]


class OffsetStore:
    def __init__(self) -> None:
        self._groups: dict[str, Topics] = {}
        self._pending: dict[int, dict[tuple[str, str, int], CommittedOffset]] = {}
        self._open: dict[str, dict[TopicPartition, set[int]]] = {}
        """The producers with a pending offset, by group and partition."""

    # Replay

    def put(
        self,
        group_id: str,
        topic: str,
        partition: int,
        value: CommittedOffset,
        producer_id: int | None,
    ) -> None:
        if producer_id is not None:
            key = (group_id, topic, partition)
            self._pending.setdefault(producer_id, {})[key] = value
            open_here = self._open.setdefault(group_id, {})
            open_here.setdefault((topic, partition), set()).add(producer_id)
            return
        topics = self._groups.get(group_id)
        if topics is None:
            topics = self._groups[group_id] = {}
        partitions = topics.get(topic)
        if partitions is None:
            partitions = topics[topic] = {}
        partitions[partition] = value

    def remove(self, group_id: str, topic: str, partition: int) -> None:
        """A tombstone also removes pending offsets of the partition."""
        topics = self._groups.get(group_id)
        partitions = None if topics is None else topics.get(topic)
        if topics is not None and partitions is not None:
            partitions.pop(partition, None)
            if not partitions:
                del topics[topic]
            if not topics:
                del self._groups[group_id]
        for producer_id in list(self._open.get(group_id, {}).get((topic, partition), ())):
            self._pending.get(producer_id, {}).pop((group_id, topic, partition), None)
            self._close(group_id, topic, partition, producer_id)

    def end_transaction(self, producer_id: int, *, committed: bool) -> None:
        pending = self._pending.pop(producer_id, None)
        if pending is None:
            return
        for (group_id, topic, partition), value in pending.items():
            self._close(group_id, topic, partition, producer_id)
            if not committed:
                continue
            current = self.get(group_id, topic, partition)
            if current is None or value.record_offset > current.record_offset:
                self.put(group_id, topic, partition, value, None)

    def _close(self, group_id: str, topic: str, partition: int, producer_id: int) -> None:
        open_here = self._open.get(group_id)
        producers = None if open_here is None else open_here.get((topic, partition))
        if open_here is None or producers is None:
            return
        producers.discard(producer_id)
        if not producers:
            del open_here[(topic, partition)]
        if not open_here:
            del self._open[group_id]

    # Reading

    def get(self, group_id: str, topic: str, partition: int) -> CommittedOffset | None:
        topics = self._groups.get(group_id)
        partitions = None if topics is None else topics.get(topic)
        return None if partitions is None else partitions.get(partition)

    def topics(self, group_id: str) -> Topics:
        return self._groups.get(group_id, {})

    def is_unstable(self, group_id: str, topic: str, partition: int) -> bool:
        """Whether an open transaction has an offset for this partition."""
        open_here = self._open.get(group_id)
        return open_here is not None and (topic, partition) in open_here

    def has_open_transactions(self, group_id: str) -> bool:
        return group_id in self._open

    def tombstones(self, group_id: str) -> list[OffsetRecord]:
        """Tombstones for all offsets of a group, including pending ones."""
        keys = {
            (topic, partition): None
            for topic, partitions in self.topics(group_id).items()
            for partition in partitions
        }
        keys.update(dict.fromkeys(self._open.get(group_id, ())))
        return [OffsetRecord(group_id, topic, partition, None) for topic, partition in keys]

    def expired(
        self,
        group_id: str,
        is_subscribed: Callable[[str], bool],
        is_expired: Callable[[CommittedOffset], bool],
    ) -> tuple[list[OffsetRecord], bool]:
        """Tombstones for expired offsets, and whether none are left."""
        tombstones: list[OffsetRecord] = []
        all_gone = not self.has_open_transactions(group_id)
        for topic, partitions in self.topics(group_id).items():
            if is_subscribed(topic):
                all_gone = False
                continue
            for partition, value in partitions.items():
                if is_expired(value) and not self.is_unstable(group_id, topic, partition):
                    tombstones.append(OffsetRecord(group_id, topic, partition, None))
                else:
                    all_gone = False
        return tombstones, all_gone

    def of_topic(self, topic: str) -> Iterator[tuple[str, int, CommittedOffset]]:
        """All offsets of a topic, committed or pending, as (group, partition, offset)."""
        for group_id, topics in self._groups.items():
            for partition, value in topics.get(topic, {}).items():
                yield group_id, partition, value
        for pending in self._pending.values():
            for (group_id, pending_topic, partition), value in pending.items():
                if pending_topic == topic:
                    yield group_id, partition, value

    def state(self) -> object:
        """Everything, for comparison after a reload."""
        return self._groups, self._pending, self._open
