"""Parses dates and times for `consume` and `group reset`."""

from __future__ import annotations

from datetime import UTC, datetime


def parse_datetime_ms(text: str) -> int:
    """Converts an ISO date and time to milliseconds since 1970, or raises ValueError.

    A time without a zone is UTC, as in Kafka's tools.
    """
    moment = datetime.fromisoformat(text)
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)
