"""Plans a read: partitions of the subscription, offsets of the rules, and ranges for tasks.

Called on the driver by `source.py`. A streaming query keeps one planner for its lifetime.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from uuid import UUID

from floodmark.client.cluster.cluster import Cluster
from floodmark.client.cluster.view import ClusterView, TopicPartition
from floodmark.client.errors import KafkaError, UnknownTopic
from floodmark.client.offsets import OffsetSpec, offsets_or_raise
from floodmark.pipeline.datasource.offsets import OffsetRule, Positions
from floodmark.pipeline.datasource.options import ReadOptions
from floodmark.pipeline.datasource.read_limits import Limits
from floodmark.pipeline.datasource.topic_patterns import compile_pattern
from floodmark.pipeline.errors import OptionError, PipelineError, offsets_lost
from floodmark.wire.schema import ZERO_UUID

# The broker may not know a topic that was just created.
_NEW_TOPIC_PATIENCE_MS = 2_000


@dataclass(frozen=True)
class OffsetRange:
    """One task's share: the offsets in [start, end) of a partition."""

    partition: TopicPartition
    start: int
    end: int
    # None if unknown: brokers before Kafka 2.8 have no ids.
    topic_id: UUID | None = None

    @property
    def size(self) -> int:
        return self.end - self.start


def range_of(view: ClusterView, partition: TopicPartition, start: int, end: int) -> OffsetRange:
    topic_id = view.topic_id(partition.topic)
    return OffsetRange(partition, start, end, None if topic_id == ZERO_UUID else topic_id)


class Planner:
    """Queries about the subscribed topics. Opens its cluster on first use."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self.cluster = Cluster(options.bootstrap_servers, options.client)

    async def close(self) -> None:
        await self.cluster.close()

    async def partitions(self) -> list[TopicPartition]:
        """All current partitions of the subscription."""
        subscription = self._options.subscription
        if subscription.assigned:
            wanted = {
                TopicPartition(topic, partition)
                for topic, partitions in subscription.assigned.items()
                for partition in partitions
            }
            found = set(await self._partitions_of(subscription.assigned))
            if missing := sorted(wanted - found):
                raise PipelineError(f"partition {missing[0]} is assigned but does not exist")
            return sorted(wanted)
        if subscription.pattern is not None:
            return await self._matching(subscription.pattern)
        return await self._partitions_of(subscription.topics)

    async def _matching(self, pattern: str) -> list[TopicPartition]:
        expression = compile_pattern(pattern)
        view = await self.cluster.retry(self.cluster.refresh_all_topics, what="metadata")
        return sorted(
            TopicPartition(name, partition)
            for name, topic in view.topics.items()
            if not topic.is_internal and expression.search(name)
            for partition in topic.partitions
        )

    async def _partitions_of(self, topics: Iterable[str]) -> list[TopicPartition]:
        names = list(topics)
        # Not from the cache: partitions may have been added since.
        self.cluster.forget_topics(names)

        async def attempt() -> ClusterView:
            try:
                return await self.cluster.topics_of(names, timeout_ms=_NEW_TOPIC_PATIENCE_MS)
            except KafkaError as error:
                if not isinstance(error.reason, UnknownTopic):
                    raise
                raise PipelineError(
                    f"a topic to read does not exist ({error.text}): create it with "
                    "`floodmark topic create NAME`, or correct the name"
                ) from error

        # Two timeouts: brokers may be away for long, but a missing topic stays missing.
        view = await self.cluster.retry(attempt, what="metadata")
        return sorted(TopicPartition(t, p) for t in names for p in view.topics[t].partitions)

    async def offsets(self, partitions: Sequence[TopicPartition], spec: OffsetSpec) -> Positions:
        """The first or the last readable offset of each partition."""
        if not partitions:
            return {}
        listed = await offsets_or_raise(
            self.cluster,
            dict.fromkeys(partitions, int(spec)),
            read_committed=self._options.client.read_committed,
        )
        return {partition: item.offset for partition, item in listed.items()}

    async def resolve(self, rule: OffsetRule, partitions: Sequence[TopicPartition]) -> Positions:
        """The offsets that a rule currently means."""
        if rule.timestamp_ms is not None:
            return await self._at_times(rule, dict.fromkeys(partitions, rule.timestamp_ms))
        if rule.timestamps_ms is not None:
            _must_cover(rule.option, rule.timestamps_ms, partitions, "Name a time for each")
            return await self._at_times(rule, rule.timestamps_ms)
        if rule.offsets is None:
            return await self.offsets(partitions, rule.default)
        given = rule.offsets
        if rule.others is not None:
            given = {**dict.fromkeys(partitions, int(rule.others)), **given}
        advice = "Use -1 for the latest and -2 for the earliest offset"
        _must_cover(rule.option, given, partitions, advice)
        positions: Positions = {}
        for spec in (OffsetSpec.EARLIEST, OffsetSpec.LATEST):
            named = [partition for partition in partitions if given[partition] == spec]
            positions |= await self.offsets(named, spec)
        return {p: positions.get(p, given[p]) for p in partitions}

    async def known_ends(self, starts: Positions, ends: Positions) -> Positions:
        """The given ends, limited to existing records. Tasks would wait long for others."""
        if self._options.ending.offsets is None:
            return ends
        listed = await offsets_or_raise(
            self.cluster, dict.fromkeys(ends, int(OffsetSpec.LATEST)), read_committed=False
        )
        known = {partition: item.offset for partition, item in listed.items()}
        for partition, end in ends.items():
            if known[partition] < end and self._options.fail_on_data_loss:
                first = max(starts[partition], known[partition])
                why = f"it ends before, at {known[partition]}"
                raise offsets_lost(partition, first, end, why)
        return {partition: min(end, known[partition]) for partition, end in ends.items()}

    async def limited(self, ranges: Sequence[OffsetRange], limits: Limits) -> list[OffsetRange]:
        """Cuts the ranges, whose ends are known, down to what the query's condition needs."""
        left = [
            replace(
                item,
                start=max(item.start, limits.first_offset),
                end=item.end if limits.end_offset is None else min(item.end, limits.end_offset),
            )
            for item in ranges
            if limits.covers(item.partition)
        ]
        left = [item for item in left if item.size > 0]
        # Negative times have other meanings for brokers.
        if not left or limits.first_timestamp_ms is None or limits.first_timestamp_ms <= 0:
            return left
        times = dict.fromkeys((item.partition for item in left), limits.first_timestamp_ms)
        listed = await offsets_or_raise(
            self.cluster, times, read_committed=self._options.client.read_committed
        )
        firsts = {partition: found.offset for partition, found in listed.items()}
        # No record is that recent where there is no offset.
        return [
            replace(item, start=max(item.start, firsts[item.partition]))
            for item in left
            if firsts[item.partition] >= 0
        ]

    async def _at_times(self, rule: OffsetRule, times: Mapping[TopicPartition, int]) -> Positions:
        listed = await offsets_or_raise(
            self.cluster, times, read_committed=self._options.client.read_committed
        )
        positions = {partition: item.offset for partition, item in listed.items()}
        late = sorted(partition for partition, offset in positions.items() if offset < 0)
        if late and rule.late_is_error:
            raise PipelineError(
                f"{late[0]} has no record at or after {times[late[0]]} ms ({rule.option}): choose "
                "an earlier time, or set startingOffsetsByTimestampStrategy to latest"
            )
        return positions | await self.offsets(late, OffsetSpec.LATEST)


def _must_cover(
    option: str,
    given: Mapping[TopicPartition, int],
    partitions: Sequence[TopicPartition],
    advice: str,
) -> None:
    missing = sorted(set(partitions) - set(given))
    unknown = sorted(set(given) - set(partitions))
    if missing or unknown:
        what = f"{missing[0]} is missing" if missing else f"{unknown[0]} is not subscribed"
        raise OptionError(
            f"option {option} must name every partition that is read, and no other: {what}. "
            f"{advice}"
        )


def check_order(ranges: Iterable[OffsetRange], options: ReadOptions) -> None:
    """A given start must not lie after the end, or nothing would be read."""
    for item in ranges:
        if item.start > item.end and options.starting.is_exact(item.partition):
            raise OptionError(
                f"the read of {item.partition} starts at offset {item.start} "
                f"({options.starting.option}), after its end at {item.end} "
                f"({options.ending.option}): correct one of them"
            )


def split_ranges(
    ranges: Sequence[OffsetRange], *, min_partitions: int | None, max_records: int | None
) -> list[OffsetRange]:
    """Ranges for tasks: one per partition with data, or smaller ones if wanted."""
    filled = [item for item in ranges if item.size > 0]
    if max_records is not None:
        filled = [piece for item in filled for piece in _cut(item, -(-item.size // max_records))]
    if min_partitions is None or len(filled) >= min_partitions:
        return filled
    total = sum(item.size for item in filled)
    small = {item for item in filled if _share(item.size, total, min_partitions) <= 1}
    large_total = total - sum(item.size for item in small)
    wanted = max(min_partitions - len(small), 1)
    return [
        piece
        for item in filled
        for piece in _cut(item, 1 if item in small else _share(item.size, large_total, wanted))
    ]


def _share(size: int, total: int, parts: int) -> int:
    return max(1, round(size / total * parts)) if total else 1


def _cut(item: OffsetRange, parts: int) -> list[OffsetRange]:
    """Equal pieces. The remainder goes to the later ones."""
    pieces = []
    start = item.start
    for left in range(max(1, parts), 0, -1):
        end = start + (item.end - start) // left
        if end > start:
            pieces.append(replace(item, start=start, end=end))
        start = end
    return pieces


def limit_evenly(start: Positions, latest: Positions, limit: int) -> Positions:
    """At most `limit` new offsets over all partitions, in proportion to what each has waiting."""
    waiting = {p: max(0, latest[p] - start.get(p, 0)) for p in latest}
    total = sum(waiting.values())
    if total <= limit:
        return latest
    limited = {}
    for partition, size in waiting.items():
        share = size / total * limit
        # Less than one record must still advance, or a slow partition would never be read.
        taken = -int(-share // 1) if 0 < share < 1 else int(share)
        limited[partition] = min(start.get(partition, 0) + taken, latest[partition])
    return limited
