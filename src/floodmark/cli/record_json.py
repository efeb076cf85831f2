"""Records as JSON lines, the same way in both directions: what `consume -o json` prints,
`produce --json` reads.

Text stays text; bytes that are not UTF-8 are written as {"base64": "..."}.
"""

from __future__ import annotations

import base64
import binascii
import json
from typing import Any, NamedTuple

import click

from floodmark.client.view import TopicPartition
from floodmark.records.record import Header, Record, header_name_bytes

INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1
NO_TIMESTAMP = -1


class Outgoing(NamedTuple):
    """A record that is about to be sent; None leaves the choice to producer and broker."""

    key: bytes | None
    value: bytes | None
    headers: list[Header]
    partition: int | None = None
    timestamp: int | None = None


def record_to_json(partition: TopicPartition, record: Record) -> bytes:
    document = {
        "topic": partition.topic,
        "partition": partition.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": to_json(record.key),
        "value": to_json(record.value),
        "headers": [[shown_name(name), to_json(value)] for name, value in record.headers],
    }
    return json.dumps(document, ensure_ascii=False).encode() + b"\n"


def record_to_kcat_json(partition: TopicPartition, record: Record) -> bytes:
    """kcat's envelope: headers are a flat list, the value is called payload."""
    document: dict[str, Any] = {
        "topic": partition.topic,
        "partition": partition.partition,
        "offset": record.offset,
        "tstype": "create",
        "ts": record.timestamp,
        "broker": -1,
    }
    if record.headers:
        document["headers"] = [
            item for name, value in record.headers for item in (shown_name(name), to_json(value))
        ]
    document["key"] = to_json(record.key)
    document["payload"] = to_json(record.value)
    return json.dumps(document, ensure_ascii=False).encode() + b"\n"


def record_from_json(line: bytes) -> Outgoing:
    try:
        document = json.loads(line)
        if not isinstance(document, dict):
            raise TypeError("a JSON object is needed")
        return Outgoing(
            from_json(document.get("key")),
            from_json(document.get("value", document.get("payload"))),
            _headers(document.get("headers") or []),
            _whole_number(document, "partition", 0, INT32_MAX),
            _whole_number(document, "timestamp", NO_TIMESTAMP, INT64_MAX),
        )
    except (ValueError, TypeError, binascii.Error) as error:
        shown = line[:60].decode(errors="replace")
        raise click.ClickException(f"not a record in JSON: {shown} ({error})") from error


def shown_name(name: str) -> str:
    """A header's name in JSON, which has to be text."""
    return header_name_bytes(name).decode(errors="replace")


def to_json(data: bytes | None) -> Any:
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def from_json(item: Any) -> bytes | None:
    """Text and base64 as they are; any other JSON value in its own JSON form."""
    if item is None:
        return None
    if isinstance(item, str):
        return item.encode()
    if isinstance(item, dict) and item.keys() == {"base64"}:
        return base64.b64decode(item["base64"], validate=True)
    return json.dumps(item, ensure_ascii=False, separators=(",", ":")).encode()


def _whole_number(document: dict[str, Any], name: str, lowest: int, highest: int) -> int | None:
    number = document.get(name)
    if number is None:
        return None
    if not isinstance(number, int) or isinstance(number, bool) or not lowest <= number <= highest:
        raise ValueError(f"{name} is not a whole number from {lowest} to {highest}")
    return number


def _headers(items: Any) -> list[Header]:
    pairs = items.items() if isinstance(items, dict) else items
    return [(str(name), from_json(value)) for name, value in pairs]
