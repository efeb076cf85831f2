"""Hessian2 strings: lengths in UTF-16 units, each surrogate in three bytes."""

from __future__ import annotations

import re

from floodmark.service.hessian.errors import HessianError

_BEYOND_BMP = re.compile("[\U00010000-\U0010ffff]")
_SURROGATE = re.compile("[\ud800-\udfff]")
_CONTINUATIONS = bytes(range(0x80, 0xC0))
_FOUR_BYTE_LEADS = bytes(range(0xF0, 0xF8))
_BUT_FOUR_BYTE_LEADS = bytes(set(range(256)) - set(_FOUR_BYTE_LEADS))

CHUNK_UNITS = 0x8000


def with_surrogates(text: str) -> str:
    """Splits characters beyond the BMP into surrogates, so that `len` counts UTF-16 units."""
    return _BEYOND_BMP.sub(_split, text)


def _split(found: re.Match[str]) -> str:
    code = ord(found.group()) - 0x10000
    return chr(0xD800 + (code >> 10)) + chr(0xDC00 + (code & 0x3FF))


def write_text(out: bytearray, text: str) -> None:
    """Append a string value."""
    if text.isascii():
        encoded, units = text.encode(), len(text)
    else:
        text = with_surrogates(text)
        encoded, units = text.encode("utf-8", "surrogatepass"), len(text)
    if units < 32:
        out.append(units)
    elif units < 1024:
        out.append(0x30 | units >> 8)
        out.append(units & 0xFF)
    elif units <= CHUNK_UNITS:
        out.append(0x53)
        out += units.to_bytes(2, "big")
    else:
        _write_chunks(out, text)
        return
    out += encoded


def _write_chunks(out: bytearray, text: str) -> None:
    position, end = 0, len(text)
    while end - position > CHUNK_UNITS:
        stop = position + CHUNK_UNITS
        if "\ud800" <= text[stop - 1] <= "\udbff":
            stop -= 1  # keep a surrogate pair in one chunk, as Java does
        out.append(0x52)
        out += (stop - position).to_bytes(2, "big")
        out += text[position:stop].encode("utf-8", "surrogatepass")
        position = stop
    out.append(0x53)
    out += (end - position).to_bytes(2, "big")
    out += text[position:].encode("utf-8", "surrogatepass")


def read_units(data: bytes, start: int, units: int) -> tuple[str, int]:
    """The text of `units` UTF-16 units from `start`, and the position after it.

    Surrogates may still be unpaired: `joined` pairs them once all chunks are there.
    """
    end = start + units
    raw = data[start:end]
    if raw.isascii():
        if len(raw) < units:
            raise HessianError("a string is longer than its message")
        return raw.decode(), end
    end = _end_of(data, start, units)
    try:
        return data[start:end].decode("utf-8", "surrogatepass"), end
    except UnicodeDecodeError as error:
        raise HessianError(f"a string is not UTF-8: {error.reason}") from error


def _end_of(data: bytes, start: int, units: int) -> int:
    """Where a string of `units` ends. Each round adds the minimum number of missing bytes."""
    end, missing = start, units
    while missing > 0:
        piece = data[end : end + missing]
        if len(piece) < missing:
            raise HessianError("a string is longer than its message")
        end += missing
        leads = piece.translate(None, _CONTINUATIONS)
        # Other writers use four bytes for what Java writes as two surrogates.
        missing -= len(leads) + len(leads.translate(None, _BUT_FOUR_BYTE_LEADS))
    if missing < 0:
        raise HessianError("a string ends inside a character")
    lead = end - 1
    while lead > start and 0x80 <= data[lead] < 0xC0:
        lead -= 1
    # Not "while it is a continuation byte": the next value may start with one.
    return max(end, lead + _width(data[lead]))


def _width(lead: int) -> int:
    if lead < 0xC0:
        return 1
    if lead < 0xE0:
        return 2
    return 3 if lead < 0xF0 else 4


def joined(text: str) -> str:
    """The text with its surrogate pairs as characters. A lone surrogate stays."""
    if text.isascii() or _SURROGATE.search(text) is None:
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
