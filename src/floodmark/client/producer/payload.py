"""Validates record contents when they are sent. PURE; called by `producer.py`.

A record of the wrong type would otherwise fail when its batch is encoded, and fail all other
records in that batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from floodmark.records.record import Header, header_name_bytes

_HOW_TO_ENCODE = {
    str: "text.encode()",
    int: "str(number).encode()",
    float: "str(number).encode()",
    dict: "json.dumps(data).encode()",
    list: "json.dumps(data).encode()",
}
_LOWEST_TIMESTAMP_MS, _HIGHEST_TIMESTAMP_MS = -(2**63), 2**63 - 1


def payload(what: str, data: bytes | None) -> bytes | None:
    """Returns immutable bytes or None. Raises TypeError for anything else."""
    if data is None or type(data) is bytes:
        return data
    if isinstance(data, bytes | bytearray | memoryview):
        # Copy: the caller may reuse its buffer before the batch is sent.
        return bytes(data)
    raise TypeError(
        f"{what} must be bytes or None, not {type(data).__name__}: encode it first, "
        f"for example {_HOW_TO_ENCODE.get(type(data), 'str(data).encode()')}"
    )


def checked_headers(headers: Iterable[Header]) -> list[Header]:
    """Pairs of a name and bytes or None. Raises TypeError for anything else."""
    if isinstance(headers, Mapping):
        raise TypeError("headers must be (name, value) pairs, not a dict: use headers.items()")
    if isinstance(headers, str | bytes):
        raise TypeError(f"headers must be (name, value) pairs, not {type(headers).__name__}")
    return [_checked_header(header) for header in headers]


def _checked_header(header: Header) -> Header:
    if not isinstance(header, tuple | list) or len(header) != 2:
        raise TypeError(f"a header must be a (name, value) pair, not {header!r}")
    name, value = header
    if not isinstance(name, str):
        raise TypeError(f"the name of a header must be str, not {type(name).__name__}: {name!r}")
    try:
        header_name_bytes(name)
    except UnicodeEncodeError as error:
        raise ValueError(f"the header name {name!r} is not valid Unicode: {error}") from None
    return name, payload(f"the value of header {name!r}", value)


def check_timestamp(timestamp_ms: int) -> None:
    if not isinstance(timestamp_ms, int):
        raise TypeError(
            "timestamp_ms must be an integer, milliseconds since 1970, not "
            f"{type(timestamp_ms).__name__}: for example int(time.time() * 1000)"
        )
    if not _LOWEST_TIMESTAMP_MS <= timestamp_ms <= _HIGHEST_TIMESTAMP_MS:
        raise ValueError(f"timestamp_ms={timestamp_ms} does not fit into 64 bits")


def check_topic(topic: str) -> None:
    if not isinstance(topic, str):
        raise TypeError(f"the topic must be str, not {type(topic).__name__}")


def check_partition(partition: int) -> None:
    if not isinstance(partition, int):
        raise TypeError(f"the partition must be an integer, not {type(partition).__name__}")
