"""Counts responses by error code: Kafka's `ErrorsPerSec`, without successes.

`apis.route` passes each response to a finder built for its class. Successful produces and fetches
of one partition are sent from templates and skip this.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from floodmark.wire.schema import schema_of

Finder: TypeAlias = Callable[[Any, list[int]], None]
"""Appends a message's error codes, other than NONE, to a list."""

ERROR_FIELD = "error_code"


class Failures:
    """Counts by API key and error code, both as plain numbers."""

    def __init__(self) -> None:
        self.counts: dict[tuple[int, int], int] = {}

    def count(self, api_key: int, error_code: int) -> None:
        key = (api_key, error_code)
        self.counts[key] = self.counts.get(key, 0) + 1

    def counter(self, api_key: int, response_class: type[Any]) -> Callable[[Any], None] | None:
        """Counts the errors in an API's responses. None if they cannot have any."""
        find = finder_of(response_class)
        if find is None:
            return None

        def count_all(message: Any) -> None:
            found: list[int] = []
            find(message, found)
            for error_code in found:
                self.count(api_key, error_code)

        return count_all


def finder_of(cls: type[Any]) -> Finder | None:
    """Visits only structures that contain an error code."""
    fields = schema_of(cls).fields
    has_own = any(field.name == ERROR_FIELD for field in fields)
    leaves: list[str] = []
    branches: list[tuple[str, Finder]] = []
    for field in fields:
        if field.kind != "array" or not isinstance(field.element, type):
            continue
        find = finder_of(field.element)
        if find is None:
            continue
        if _is_leaf(field.element):
            leaves.append(field.name)
        else:
            branches.append((field.name, find))
    if not (has_own or leaves or branches):
        return None

    def walk(message: Any, found: list[int]) -> None:
        if has_own and message.error_code:
            found.append(message.error_code)
        for name in leaves:
            # In one expression: there may be thousands of partitions.
            found += [item.error_code for item in getattr(message, name) or () if item.error_code]
        for name, find in branches:
            for item in getattr(message, name) or ():
                find(item, found)

    return walk


def _is_leaf(cls: type[Any]) -> bool:
    """Whether a structure has its own error code and none below it."""
    fields = schema_of(cls).fields
    return any(field.name == ERROR_FIELD for field in fields) and not any(
        isinstance(field.element, type) and finder_of(field.element) for field in fields
    )
