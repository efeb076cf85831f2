"""Java's value classes that are objects on the wire and plain values in Python.

hessian-lite writes BigDecimal and UUID as an object with one text, BigInteger by its private
fields, and java.time through its own handles.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal, InvalidOperation
from typing import Any
from uuid import UUID

Fields = Mapping[str, Any]

BIG_DECIMAL = "java.math.BigDecimal"
BIG_INTEGER = "java.math.BigInteger"
UUID_CLASS = "java.util.UUID"
STACK_TRACE_ELEMENT = "java.lang.StackTraceElement"

_HANDLES = "com.alibaba.com.caucho.hessian.io.java8."
LOCAL_DATE = _HANDLES + "LocalDateHandle"
LOCAL_TIME = _HANDLES + "LocalTimeHandle"
LOCAL_DATE_TIME = _HANDLES + "LocalDateTimeHandle"
DURATION = _HANDLES + "DurationHandle"

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


def milliseconds_of(moment: datetime) -> int:
    """Milliseconds since the epoch. A datetime without a zone counts as UTC."""
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return (moment - EPOCH) // _MILLISECOND


def moment_of(milliseconds: int) -> datetime:
    """Raises OverflowError for a date outside of Python's years 1 to 9999."""
    return EPOCH + timedelta(milliseconds=milliseconds)


def magnitude_words(number: int) -> list[int]:
    """BigInteger's `mag`: 32-bit words, most significant first, as signed ints."""
    magnitude = abs(number)
    size = (magnitude.bit_length() + 31) // 32
    raw = magnitude.to_bytes(size * 4, "big")
    return [int.from_bytes(raw[i : i + 4], "big", signed=True) for i in range(0, size * 4, 4)]


def _big_integer(fields: Fields) -> int:
    signum = fields["signum"]
    if signum not in (-1, 0, 1):
        # Multiplying by another large number would take the loop's time.
        raise ValueError("the sign of a BigInteger is not -1, 0 or 1")
    words = fields.get("mag") or []
    raw = b"".join((word & 0xFFFFFFFF).to_bytes(4, "big") for word in words)
    return int(signum) * int.from_bytes(raw, "big")


def _time_of(fields: Fields) -> time:
    return time(fields["hour"], fields["minute"], fields["second"], fields["nano"] // 1000)


def _with_offset(fields: Fields) -> datetime:
    moment, offset = fields["dateTime"], fields["offset"]
    result: datetime = moment.replace(tzinfo=offset)
    return result


BUILDERS: dict[str, Callable[[Fields], Any]] = {
    BIG_DECIMAL: lambda f: Decimal(f["value"]),
    BIG_INTEGER: _big_integer,
    UUID_CLASS: lambda f: UUID(f["value"]),
    "java.sql.Date": lambda f: f["value"],
    "java.sql.Time": lambda f: f["value"],
    "java.sql.Timestamp": lambda f: f["value"],
    "java.util.Locale": lambda f: f["value"],
    "com.alibaba.com.caucho.hessian.io.LocaleHandle": lambda f: f["value"],
    LOCAL_DATE: lambda f: date(f["year"], f["month"], f["day"]),
    LOCAL_TIME: _time_of,
    LOCAL_DATE_TIME: lambda f: datetime.combine(f["date"], f["time"]),
    _HANDLES + "InstantHandle": lambda f: (
        EPOCH + timedelta(seconds=f["seconds"], microseconds=f["nanos"] // 1000)
    ),
    DURATION: lambda f: timedelta(seconds=f["seconds"], microseconds=f["nanos"] // 1000),
    _HANDLES + "ZoneOffsetHandle": lambda f: timezone(timedelta(seconds=f["seconds"])),
    _HANDLES + "OffsetDateTimeHandle": _with_offset,
    _HANDLES + "ZonedDateTimeHandle": _with_offset,
}

BUILD_ERRORS = (AttributeError, InvalidOperation, KeyError, OverflowError, TypeError, ValueError)
"""What a builder raises if fields are missing or hold what Java would never write."""
