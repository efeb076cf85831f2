"""Consumer lag by group, under kafka_exporter's names. Called by `collecting`.

Includes groups without members, because nobody else reports those.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from floodmark.observability.readings import Readings, Turns

if TYPE_CHECKING:
    from floodmark.coordinators.groups.offsets import Partitions
    from floodmark.observability.sources import ObservedGroups
    from floodmark.replication.replica import Replica

MAX_GROUP_TOPICS = 2_000
"""The most pairs of group and topic with their own series: a scrape must stay short."""

MAX_GROUP_PARTITIONS = 5_000
"""The same for single partitions. All pairs above have at least a sum."""


class LagReader:
    def __init__(self, replicas: list[Replica], readings: Readings, turns: Turns) -> None:
        # Looked up once per partition, because many groups may have committed it.
        self._ends: dict[str, dict[int, int]] = {}
        for replica in replicas:
            topic, partition = replica.key
            self._ends.setdefault(topic, {})[partition] = replica.core.high_watermark
        self._readings = readings
        self._turns = turns
        self._topics = self._partitions = 0
        self._topics_left_out = self._partitions_left_out = 0

    async def read(self, service: ObservedGroups | None, max_groups: int) -> None:
        """Copies one group after the other, and pauses between topics."""
        groups = [] if service is None else service.committed()
        for group_id, members, topics in groups[:max_groups]:
            self._readings.add("kafka_consumergroup_members", members, group_id)
            for topic, partitions in list(topics.items()):
                self._read_topic(group_id, topic, partitions)
                await self._turns.pause()
        left_out = "floodmark_metrics_left_out"
        self._readings.add(left_out, max(0, len(groups) - max_groups), "groups")
        self._readings.add(left_out, self._topics_left_out, "group_topics")
        self._readings.add(left_out, self._partitions_left_out, "group_partitions")

    def _read_topic(self, group_id: str, topic: str, partitions: Partitions) -> None:
        if self._topics >= MAX_GROUP_TOPICS:
            self._topics_left_out += 1
            self._partitions_left_out += len(partitions)
            return
        self._topics += 1
        has_room = self._partitions + len(partitions) <= MAX_GROUP_PARTITIONS
        if has_room:
            self._partitions += len(partitions)
        else:
            self._partitions_left_out += len(partitions)
        ends = self._ends.get(topic, {})
        add, of_topic = self._readings.add, (group_id, topic)
        # If its folder is offline, the partition's end is unknown.
        lags = {
            partition: max(0, ends[partition] - committed.offset)
            for partition, committed in partitions.items()
            if partition in ends
        }
        committed_sum = sum([committed.offset for committed in partitions.values()])
        add("kafka_consumergroup_current_offset_sum", committed_sum, *of_topic)
        add("kafka_consumergroup_lag_sum", sum(lags.values()), *of_topic)
        if not has_room:
            return
        for partition, committed in partitions.items():
            add("kafka_consumergroup_current_offset", committed.offset, *of_topic, str(partition))
        for partition, lag in lags.items():
            add("kafka_consumergroup_lag", lag, *of_topic, str(partition))
