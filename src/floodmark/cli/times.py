"""Dates and times as people write them. Used by `consume` and by `group reset`."""

from __future__ import annotations

from datetime import UTC, datetime


def parse_datetime_ms(text: str) -> int:
    """Milliseconds since 1970 of an ISO date and time, ValueError if it is none. Without a zone it
    is UTC, as for Kafka's tools."""
    moment = datetime.fromisoformat(text)
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)
