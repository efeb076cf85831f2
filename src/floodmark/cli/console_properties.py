"""The `--property NAME=VALUE` options of Kafka's console producer and consumer.

They define how `produce` parses lines and how `consume` formats records.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations

import click

from floodmark.cli.format import Formatter, unescape
from floodmark.cli.record_json import Outgoing
from floodmark.client.cluster.view import TopicPartition
from floodmark.records.record import Header, Record, header_name_bytes

_OF_LINES = {
    "parse.key": "false",
    "key.separator": "\\t",
    "parse.headers": "false",
    "headers.delimiter": "\\t",
    "headers.separator": ",",
    "headers.key.separator": ":",
    "ignore.error": "false",
    "null.marker": "",
}
_OF_RECORDS = {
    "print.timestamp": "false",
    "print.partition": "false",
    "print.offset": "false",
    "print.headers": "false",
    "print.key": "false",
    "print.value": "true",
    "key.separator": "\\t",
    "line.separator": "\\n",
    "headers.separator": ",",
    "null.literal": "null",
}


@dataclass(frozen=True, slots=True)
class ConsoleReader:
    """Turns a line into a record by splitting off headers and key at their separators."""

    key_separator: bytes | None
    headers_delimiter: bytes | None
    headers_separator: bytes
    headers_key_separator: bytes
    ignore_error: bool
    null_marker: bytes | None

    @classmethod
    def from_properties(cls, texts: Iterable[str]) -> ConsoleReader:
        values = _parse(texts, _OF_LINES, "--reader-property")
        _refuse_equal_marks(values)
        return cls(
            unescape(values["key.separator"]) if _is_true(values["parse.key"]) else None,
            unescape(values["headers.delimiter"]) if _is_true(values["parse.headers"]) else None,
            unescape(values["headers.separator"]),
            unescape(values["headers.key.separator"]),
            _is_true(values["ignore.error"]),
            values["null.marker"].encode() or None,
        )

    def __call__(self, line: bytes) -> Outgoing:
        headers, rest = self._cut(line, line, self.headers_delimiter, "headers delimiter")
        key, value = self._cut(line, rest, self.key_separator, "key separator")
        return Outgoing(
            self._or_null(key),
            self._or_null(value),
            [] if headers is None or self._or_null(headers) is None else self._headers(headers),
        )

    def _cut(
        self, line: bytes, rest: bytes, mark: bytes | None, name: str
    ) -> tuple[bytes | None, bytes]:
        if mark is None:
            return None, rest
        before, found, after = rest.partition(mark)
        if found:
            return before, after
        if self.ignore_error:
            return None, rest
        raise click.ClickException(f"no {name} found in the line {_shown(line)}")

    def _headers(self, text: bytes) -> list[Header]:
        headers: list[Header] = []
        pairs = text.split(self.headers_separator)
        while len(pairs) > 1 and not pairs[-1]:
            pairs.pop()
        for pair in pairs:
            name, found, value = pair.partition(self.headers_key_separator)
            if not found and not self.ignore_error:
                raise click.ClickException(f"no header key separator found in {_shown(pair)}")
            if name == self.null_marker:
                raise click.ClickException(
                    f"the header {_shown(pair)} has the null marker as its key"
                )
            decoded = name.decode("utf-8", "surrogateescape")
            headers.append((decoded, self._or_null(value) if found else None))
        return headers

    def _or_null(self, data: bytes | None) -> bytes | None:
        return None if data == self.null_marker else data


def console_formatter(texts: Iterable[str]) -> Formatter:
    """Formats a record as Kafka's console consumer does.

    Cannot tell CreateTime from LogAppendTime: a record does not carry its timestamp type.
    """
    values = _parse(texts, _OF_RECORDS, "--formatter-property")
    null, between_headers = values["null.literal"].encode(), unescape(values["headers.separator"])
    columns = {
        "print.timestamp": lambda _, record: _timestamp(record),
        "print.partition": lambda partition, _: b"Partition:%d" % partition.partition,
        "print.offset": lambda _, record: b"Offset:%d" % record.offset,
        "print.headers": lambda _, record: _headers(record, between_headers, null),
        "print.key": lambda _, record: null if record.key is None else record.key,
        "print.value": lambda _, record: null if record.value is None else record.value,
    }
    chosen: list[Formatter] = [column for name, column in columns.items() if _is_true(values[name])]
    separator, end = unescape(values["key.separator"]), unescape(values["line.separator"])

    def write(partition: TopicPartition, record: Record) -> bytes:
        if not chosen:
            return b""
        return separator.join(column(partition, record) for column in chosen) + end

    return write


def _timestamp(record: Record) -> bytes:
    return b"NO_TIMESTAMP" if record.timestamp < 0 else b"CreateTime:%d" % record.timestamp


def _headers(record: Record, separator: bytes, null: bytes) -> bytes:
    if not record.headers:
        return b"NO_HEADERS"
    return separator.join(
        header_name_bytes(name) + b":" + (null if value is None else value)
        for name, value in record.headers
    )


def _parse(texts: Iterable[str], known: dict[str, str], option: str) -> dict[str, str]:
    values = dict(known)
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            raise click.UsageError(f"'{text}' is not of the form name=value")
        if name not in known:
            raise click.UsageError(
                f"{name} is not a known {option}; known are {', '.join(sorted(known))}"
            )
        values[name] = value
    return values


def _refuse_equal_marks(values: dict[str, str]) -> None:
    """Refuses equal separators: one of the two would never be found."""
    of_headers = ("headers.delimiter", "headers.separator", "headers.key.separator")
    pairs = list(combinations(of_headers, 2))
    if values["null.marker"]:
        pairs += [("null.marker", name) for name in ("key.separator", *of_headers)]
    for first, second in pairs:
        if values[first] == values[second]:
            raise click.UsageError(f"{first} and {second} must differ")


def _is_true(text: str) -> bool:
    return text.strip().lower() == "true"


def _shown(data: bytes) -> str:
    return repr(data[:60].decode(errors="replace"))
