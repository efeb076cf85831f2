"""Parses dates and times for `consume` and `group reset`."""

from __future__ import annotations

from datetime import UTC, datetime


def parse_datetime_ms(text: str) -> int:
    """Converts an ISO date and time to milliseconds since 1970, or raises ValueError.

    A time without a zone is UTC, as in Kafka's tools. Earlier times count as 1970: negative
    timestamps have other meanings, such as the end of a partition.
    """
    moment = datetime.fromisoformat(text)
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return max(0, int(moment.timestamp() * 1000))
