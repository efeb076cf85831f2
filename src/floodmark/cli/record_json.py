"""Records as JSON lines: `consume -o json` prints them, `produce --json` reads them.

Text stays text. Bytes that are not UTF-8 become {"base64": "..."}.
"""

from __future__ import annotations

import base64
import binascii
import json
from typing import Any, NamedTuple

from floodmark.cli.errors import CliError
from floodmark.cli.output import Document
from floodmark.client.cluster.view import TopicPartition
from floodmark.config.suggestions import did_you_mean
from floodmark.records.record import Header, Record, header_name_bytes
from floodmark.vocabulary import NO_TIMESTAMP

INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1
_FIELDS = frozenset(
    {
        *("topic", "partition", "offset", "timestamp", "key", "value", "headers"),
        # Fields of kcat's envelope.
        *("payload", "ts", "tstype", "broker"),
    }
)


class Outgoing(NamedTuple):
    """A record to send. None leaves the choice to the producer or broker."""

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
    """kcat's envelope: headers are a flat list, and the value is called payload."""
    document: Document = {
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
            raise TypeError("expected a JSON object")
        _check_fields(document)
        timestamp = _whole_number(document, "timestamp", NO_TIMESTAMP, INT64_MAX)
        if timestamp is None:
            timestamp = _whole_number(document, "ts", NO_TIMESTAMP, INT64_MAX)
        return Outgoing(
            from_json(document.get("key")),
            from_json(document["value"] if "value" in document else document["payload"]),
            _headers(document.get("headers") or []),
            _whole_number(document, "partition", 0, INT32_MAX),
            timestamp,
        )
    except (ValueError, TypeError, RecursionError, binascii.Error) as error:
        shown = line[:60].decode(errors="replace")
        raise CliError(
            f"not a JSON record: {shown}",
            why=str(error),
            hint='write a line such as {"key": "ann", "value": "2 apples"}',
        ) from error


def _check_fields(document: Document) -> None:
    """Refuses unknown fields: a misspelt `value` would make the record a tombstone."""
    for name in document.keys() - _FIELDS:
        raise ValueError(f"unknown field {name}{did_you_mean(name, sorted(_FIELDS))}")
    if "value" not in document and "payload" not in document:
        raise ValueError('value is missing; "value": null makes a tombstone')
    if "value" in document and "payload" in document:
        raise ValueError("it has both value and payload")


def shown_name(name: str) -> str:
    """A header name in JSON, which must be text."""
    return header_name_bytes(name).decode(errors="replace")


def to_json(data: bytes | None) -> Any:
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def from_json(item: Any) -> bytes | None:
    """Decodes text and base64. Any other JSON value stays in its JSON form."""
    if item is None:
        return None
    if isinstance(item, str):
        return item.encode()
    if isinstance(item, dict) and item.keys() == {"base64"}:
        return base64.b64decode(item["base64"], validate=True)
    return json.dumps(item, ensure_ascii=False, separators=(",", ":")).encode()


def _whole_number(document: Document, name: str, lowest: int, highest: int) -> int | None:
    number = document.get(name)
    if number is None:
        return None
    if not isinstance(number, int) or isinstance(number, bool) or not lowest <= number <= highest:
        raise ValueError(f"{name} is not an integer from {lowest} to {highest}")
    return number


def _headers(items: Any) -> list[Header]:
    pairs = items.items() if isinstance(items, dict) else items
    if isinstance(items, list) and items and isinstance(items[0], str):
        # kcat's headers are flat: name, value, name, value.
        pairs = zip(items[::2], items[1::2], strict=True)
    return [(str(name), from_json(value)) for name, value in pairs]
