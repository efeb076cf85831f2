"""Parses start positions and seeks to them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum

import click

from floodmark.cli.times import parse_datetime_ms
from floodmark.client.cluster.view import TopicPartition
from floodmark.client.consumer.consumer import Consumer

_DURATION = re.compile(r"-?(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)(?:\s+ago)?$")
# At most what fits into 64 bits.
_MILLISECONDS = re.compile(r"[0-9]{1,18}")
_UNIT_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


class Origin(Enum):
    BEGINNING = "beginning"
    END = "end"
    OFFSET = "offset"
    BEFORE_END = "before end"
    TIME = "time"


@dataclass(frozen=True, slots=True)
class StartAt:
    origin: Origin
    number: int = 0


def parse_offset(text: str) -> StartAt:
    """Parses beginning, end, an offset, -N for N before the end, or kcat's s@TIMESTAMP."""
    if text in ("beginning", "earliest"):
        return StartAt(Origin.BEGINNING)
    if text in ("end", "latest"):
        return StartAt(Origin.END)
    if text.startswith("s@"):
        text = text[2:]
        if _MILLISECONDS.fullmatch(text):
            return StartAt(Origin.TIME, int(text))
    elif re.fullmatch(r"-?\d+", text):
        number = int(text)
        if number < 0:
            return StartAt(Origin.BEFORE_END, -number)
        return StartAt(Origin.OFFSET, number)
    raise click.UsageError(
        f"'{text}' is not an offset: use beginning, end, a number, -N for N before the end, "
        "or s@TIMESTAMP"
    )


def parse_time(text: str, now_ms: int) -> StartAt:
    """Parses milliseconds since 1970, an ISO date and time, or an age such as 10m."""
    if _MILLISECONDS.fullmatch(text):
        return StartAt(Origin.TIME, int(text))
    duration = _DURATION.fullmatch(text.strip())
    if duration:
        back_ms = float(duration[1]) * _UNIT_MS[duration[2]]
        return StartAt(Origin.TIME, max(0, int(now_ms - back_ms)))
    try:
        return StartAt(Origin.TIME, parse_datetime_ms(text))
    except ValueError:
        raise click.UsageError(
            f"'{text}' is not a time: use 2026-01-31T12:00, milliseconds since 1970, or 10m, 2h, 1d"
        ) from None


async def seek_to(
    consumer: Consumer,
    end: Mapping[TopicPartition, int],
    start: StartAt,
    tell: Callable[[str], None],
) -> None:
    """`end` holds the partition ends when reading started. They keep growing."""
    if start.origin is Origin.BEGINNING:
        consumer.seek_to_beginning(*end)
    elif start.origin is Origin.TIME:
        consumer.seek_to_timestamp(start.number, *end)
    elif start.origin is Origin.END:
        for partition, offset in end.items():
            consumer.seek(partition, offset)
    else:
        first = await consumer.beginning_offsets(end)
        for partition, offset in end.items():
            wanted = start.number
            if start.origin is Origin.BEFORE_END:
                wanted = max(offset - start.number, first[partition])
            consumer.seek(partition, _nearest(partition, wanted, first[partition], offset, tell))


def _nearest(
    partition: TopicPartition, wanted: int, first: int, end: int, tell: Callable[[str], None]
) -> int:
    """The nearest offset in the log. Tells the user when it differs."""
    if wanted < first:
        tell(f"{partition} begins at offset {first}: reading starts there instead of at {wanted}")
        return first
    if wanted > end:
        tell(f"{partition} ends at offset {end}: reading starts there instead of at {wanted}")
        return end
    return wanted
