"""Where a read starts and ends: `earliest`, `latest`, offsets or times per partition.

`options.py` parses the connector's options into rules. `planning.py` asks the brokers what a rule
currently means. Uses the connector's JSON: {"topic": {"0": 23, "1": -2}}.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from floodmark.client.cluster.view import TopicPartition
from floodmark.client.offsets import OffsetSpec
from floodmark.pipeline.errors import OptionError

if TYPE_CHECKING:
    from floodmark.client.consumer.group_offsets import OffsetAndMetadata

# Set by replays: partitions that were added since are read from their first record on.
ADDED_PARTITIONS_OPTION = "readAddedPartitions"

Positions = dict[TopicPartition, int]
Read = Callable[[str], str | None]


@dataclass(frozen=True)
class OffsetRule:
    """Offsets or times by partition, or one for all. An offset may be a value of OffsetSpec."""

    default: OffsetSpec = OffsetSpec.LATEST
    offsets: Mapping[TopicPartition, int] | None = None
    timestamp_ms: int | None = None
    timestamps_ms: Mapping[TopicPartition, int] | None = None
    # What to do if no record is that recent: fail, or start at the end.
    late_is_error: bool = False
    option: str = "startingOffsets"
    # What applies to partitions that `offsets` does not name. None: it must name all of them.
    others: OffsetSpec | None = None

    @property
    def is_latest(self) -> bool:
        """Whether it only names the last offset, whatever that is."""
        return self.default is OffsetSpec.LATEST and not (
            self.offsets or self.timestamps_ms or self.timestamp_ms is not None
        )

    def is_exact(self, partition: TopicPartition) -> bool:
        """Whether a position was named there, rather than the first or last one."""
        if self.offsets is not None:
            return self.offsets[partition] >= 0
        return self.timestamp_ms is not None or self.timestamps_ms is not None


def starting_rule(read: Read, *, streaming: bool) -> OffsetRule:
    """In the connector's order: one time for all, times per partition, offsets."""
    strategy = (read("startingOffsetsByTimestampStrategy") or "error").lower()
    if strategy not in ("error", "latest"):
        raise OptionError(
            f"option startingOffsetsByTimestampStrategy is {strategy!r}: use error or latest"
        )
    timed = _timed(read, "startingTimestamp", "startingOffsetsByTimestamp", strategy == "error")
    if timed is not None:
        return timed
    default = "latest" if streaming else "earliest"
    text = read("startingOffsets") or default
    refused = None if streaming else OffsetSpec.LATEST
    rule = _positioned("startingOffsets", text, refused)
    if read(ADDED_PARTITIONS_OPTION) is None or rule.offsets is None:
        return rule
    return replace(rule, others=OffsetSpec.EARLIEST)


def ending_rule(read: Read) -> OffsetRule:
    timed = _timed(read, "endingTimestamp", "endingOffsetsByTimestamp", False)
    if timed is not None:
        return timed
    return _positioned("endingOffsets", read("endingOffsets") or "latest", OffsetSpec.EARLIEST)


def _timed(read: Read, single: str, per_partition: str, late_is_error: bool) -> OffsetRule | None:
    text = read(single)
    if text is not None:
        if not text.isdigit():
            raise OptionError(f"option {single} is {text!r}: use milliseconds since 1970")
        return OffsetRule(timestamp_ms=int(text), late_is_error=late_is_error, option=single)
    text = read(per_partition)
    if text is None:
        return None
    times = parse_positions(per_partition, text)
    return OffsetRule(timestamps_ms=times, late_is_error=late_is_error, option=per_partition)


def _positioned(option: str, text: str, refused: OffsetSpec | None) -> OffsetRule:
    named = {"earliest": OffsetSpec.EARLIEST, "latest": OffsetSpec.LATEST}.get(text.lower())
    rule = (
        OffsetRule(default=named, option=option)
        if named is not None
        else OffsetRule(offsets=parse_positions(option, text), option=option)
    )
    values = {rule.default} if rule.offsets is None else set(rule.offsets.values())
    if refused is not None and refused in values:
        raise OptionError(
            f"option {option} is {text!r}: a batch read cannot "
            f"{'begin at the latest' if refused is OffsetSpec.LATEST else 'end at the earliest'} "
            "offset, it would read nothing"
        )
    return rule


def parse_positions(option: str, text: str) -> Positions:
    try:
        document = json.loads(text)
        return {
            TopicPartition(str(topic), int(partition)): int(offset)
            for topic, partitions in document.items()
            for partition, offset in partitions.items()
        }
    except (ValueError, TypeError, AttributeError):
        raise OptionError(
            f"option {option} is {text!r}: use earliest, latest or JSON such as "
            '{"orders": {"0": 23, "1": -2}}, where -1 is the latest and -2 the earliest'
        ) from None


def to_document(positions: Mapping[TopicPartition, int]) -> dict[str, dict[str, int]]:
    """Spark's checkpoint format for offsets. Sorted, so that equal ones compare equal."""
    document: dict[str, dict[str, int]] = {}
    for partition in sorted(positions):
        document.setdefault(partition.topic, {})[str(partition.partition)] = positions[partition]
    return document


def from_document(document: Mapping[str, Mapping[str, int]]) -> Positions:
    return {
        TopicPartition(topic, int(partition)): int(offset)
        for topic, partitions in document.items()
        for partition, offset in partitions.items()
    }


def for_display(positions: Positions) -> dict[TopicPartition, OffsetAndMetadata]:
    """Positions as a group's offsets, marked so that `group reset` knows it would move nothing."""
    # Imported late, as by callers: a query waits for its driver process to be ready.
    from floodmark.client.consumer.group_offsets import SHOWN_BY_SPARK, OffsetAndMetadata

    return {p: OffsetAndMetadata(offset, SHOWN_BY_SPARK) for p, offset in positions.items()}


def topics_in(document: Any) -> dict[str, dict[str, int]]:
    """The offsets of topics in Spark's reports or checkpoints. Empty for other sources."""
    if not isinstance(document, dict):
        return {}
    return {
        topic: partitions
        for topic, partitions in document.items()
        if isinstance(partitions, dict) and all(type(o) is int for o in partitions.values())
    }
