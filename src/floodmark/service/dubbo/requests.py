"""PURE: decodes request bodies into calls. Repeated parts are cached instead of decoded again.

A consumer's requests for one method start with the same bytes (version, path, method, types) and
mostly end with the same attachments. Each connection caches both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from floodmark.service.hessian import Decoder, HessianError, JavaClasses
from floodmark.service.interface import count_of

MAX_PREFIXES = 16
MAX_PREFIX_BYTES = 4096
"""Longer ones are not cached: names and types of a real interface are shorter."""
MAX_ATTACHMENTS = 64
MAX_ATTACHMENT_BYTES = 4096
MAX_ARGUMENTS = 255
"""Java's own limit for the parameters of a method."""

_MAX_VERSION_DIGITS = 9
"""Python refuses to convert thousands of digits."""

_TEXTS = ("group", "version", "token", "generic")
"""Attachments that decide about a call; anything else in them would end up in keys and messages."""


class Prefix(NamedTuple):
    """The part before the arguments."""

    data: bytes
    dubbo_version: str
    path: str
    version: str
    method: str
    descriptor: str
    argument_count: int
    takes_attachments: bool
    """Whether a response may carry attachments (Dubbo protocol 2.0.2 and later)."""


class Request(NamedTuple):
    prefix: Prefix
    arguments: list[Any]
    attachments: Mapping[str, Any]


ClassesOf = Callable[[str], JavaClasses | None]


class Requests:
    """The request bodies of one connection."""

    __slots__ = ("_attachments", "_classes_of", "_prefixes")

    def __init__(self, classes_of: ClassesOf) -> None:
        """`classes_of(path)` returns the classes for the arguments."""
        self._classes_of = classes_of
        self._prefixes: list[Prefix] = []
        self._attachments: dict[bytes, Mapping[str, Any]] = {}

    def read(self, body: bytes) -> Request:
        """Decodes a whole request. Raises HessianError."""
        prefix = self._prefix(body)
        start = len(prefix.data)
        arguments: list[Any] = []
        if prefix.argument_count:
            decoder = Decoder(body, self._classes_of(prefix.path), start)
            arguments = [decoder.read() for _ in range(prefix.argument_count)]
            start = decoder.position
            known = self._attachments.get(body[start:])
            if known is not None:
                return Request(prefix, arguments, known)
            return Request(prefix, arguments, self._read_attachments(decoder, body[start:]))
        known = self._attachments.get(body[start:])
        if known is None:
            known = self._read_attachments(Decoder(body, None, start), body[start:])
        return Request(prefix, arguments, known)

    def _prefix(self, body: bytes) -> Prefix:
        for known in self._prefixes:
            if body.startswith(known.data):
                return known
        prefix = read_prefix(body)
        if len(prefix.data) <= MAX_PREFIX_BYTES:
            if len(self._prefixes) >= MAX_PREFIXES:
                self._prefixes.pop()
            self._prefixes.insert(0, prefix)
        return prefix

    def _read_attachments(self, decoder: Decoder, data: bytes) -> Mapping[str, Any]:
        attachments = decoder.read()
        decoder.expect_end()
        if attachments is None:
            attachments = {}
        if not isinstance(attachments, dict):
            raise HessianError("attachments must be a map")
        for name in _TEXTS:
            if not isinstance(attachments.get(name, ""), (str, type(None))):
                raise HessianError(f"the attachment {name} is not a text")
        # Texts only: nothing in them refers to the arguments before.
        is_plain = all(type(k) is str and type(v) is str for k, v in attachments.items())
        if is_plain and len(data) <= MAX_ATTACHMENT_BYTES:
            if len(self._attachments) >= MAX_ATTACHMENTS:
                self._attachments.clear()
            self._attachments[data] = attachments
        return attachments


def read_prefix(body: bytes) -> Prefix:
    decoder = Decoder(body)
    texts = [decoder.read_text() for _ in range(5)]
    dubbo_version, path, version, method, descriptor = texts
    count = count_of(descriptor)
    if count > MAX_ARGUMENTS:
        raise HessianError(f"{count} arguments, the limit is {MAX_ARGUMENTS}")
    return Prefix(
        body[: decoder.position],
        dubbo_version,
        path,
        version,
        method,
        descriptor,
        count,
        takes_attachments(dubbo_version),
    )


def takes_attachments(dubbo_version: str) -> bool:
    """Between 2.0.2 and 2.0.99: above that are release versions, not protocol versions."""
    parts = dubbo_version.split(".")
    if len(parts) < 3 or parts[:2] != ["2", "0"] or len(parts[2]) > _MAX_VERSION_DIGITS:
        return False
    return parts[2].isdecimal() and 2 <= int(parts[2]) <= 99
