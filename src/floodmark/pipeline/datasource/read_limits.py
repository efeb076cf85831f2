"""What comparisons of topic, partition, offset and timestamp leave of a read. PURE.

Made by `spark/conditions.py` from a query's condition, passed to the reader as the option
`readLimits`, and applied by `planning.py`. They only narrow what is fetched: Spark still applies
the condition, so a limit may be wider than it but never narrower.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from typing import NamedTuple

from floodmark.client.cluster.view import TopicPartition
from floodmark.pipeline.errors import OptionError


class Comparison(NamedTuple):
    """A column and values. The operator is =, >, >=, < or <=; for = any of the values may be."""

    column: str
    operator: str
    # Of a timestamp: microseconds, as in Spark.
    values: tuple[int | str, ...]


@dataclass(frozen=True)
class Limits:
    """The offsets in [first_offset, end_offset) of some partitions, from a time on."""

    topics: tuple[str, ...] | None = None
    partitions: tuple[int, ...] | None = None
    first_partition: int = 0
    end_partition: int | None = None
    first_offset: int = 0
    end_offset: int | None = None
    # The first record at or after this time, and all that follow it: those may be older, because
    # producers may set any timestamp. For the same reason there is no last time.
    first_timestamp_ms: int | None = None

    def covers(self, partition: TopicPartition) -> bool:
        return (
            (self.topics is None or partition.topic in self.topics)
            and (self.partitions is None or partition.partition in self.partitions)
            and partition.partition >= self.first_partition
            and (self.end_partition is None or partition.partition < self.end_partition)
        )

    def to_text(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def of_text(cls, text: str) -> Limits:
        try:
            return cls(**json.loads(text))
        except (ValueError, TypeError):
            raise OptionError(
                f"option readLimits is {text!r}: use floodmark.pipeline.where, which sets it"
            ) from None


def limits_of(comparisons: Iterable[Comparison]) -> Limits:
    """All comparisons must hold. Those of other columns leave everything."""
    limits = Limits()
    for item in comparisons:
        if item.column == "topic":
            limits = _by_topic(limits, item)
        elif item.column == "partition":
            limits = _by_partition(limits, item)
        elif item.column == "offset":
            limits = _by_offset(limits, item)
        elif item.column == "timestamp":
            limits = _by_timestamp(limits, item)
    return limits


def _by_topic(limits: Limits, item: Comparison) -> Limits:
    if item.operator != "=":
        return limits
    names = tuple(str(value) for value in item.values)
    return replace(limits, topics=names if limits.topics is None else _both(limits.topics, names))


def _both(known: tuple[str, ...], names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name for name in known if name in names)


def _by_partition(limits: Limits, item: Comparison) -> Limits:
    if item.operator == "=":
        known, given = limits.partitions, tuple(map(int, item.values))
        both = given if known is None else tuple(number for number in known if number in given)
        return replace(limits, partitions=both)
    first, end = _bounds(item)
    return replace(
        limits,
        first_partition=max(limits.first_partition, first),
        end_partition=_earlier(limits.end_partition, end),
    )


def _by_offset(limits: Limits, item: Comparison) -> Limits:
    first, end = _bounds(item)
    return replace(
        limits,
        first_offset=max(limits.first_offset, first),
        end_offset=_earlier(limits.end_offset, end),
    )


def _bounds(item: Comparison) -> tuple[int, int | None]:
    """The numbers that a comparison allows, as [first, end)."""
    numbers = [int(value) for value in item.values]
    if not numbers:
        return 0, 0
    least, most = min(numbers), max(numbers)
    bounds: dict[str, tuple[int, int | None]] = {
        "=": (least, most + 1),
        ">": (least + 1, None),
        ">=": (least, None),
        "<": (0, most),
        "<=": (0, most + 1),
    }
    return bounds[item.operator]


def _earlier(known: int | None, end: int | None) -> int | None:
    return end if known is None else known if end is None else min(known, end)


def _by_timestamp(limits: Limits, item: Comparison) -> Limits:
    if item.operator not in ("=", ">", ">=") or not item.values:
        return limits
    # Rounded down: records have milliseconds only.
    first_ms = min(map(int, item.values)) // 1000
    known_ms = limits.first_timestamp_ms
    return replace(
        limits, first_timestamp_ms=first_ms if known_ms is None else max(known_ms, first_ms)
    )
