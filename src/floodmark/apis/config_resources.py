"""The kinds of resources that have settings, by their number on the wire and in the metadata."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from floodmark.metadata.image import ConfigResource
from floodmark.wire.errors import ErrorCode


class ResourceType(IntEnum):
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


_KINDS = {
    ResourceType.TOPIC: "topic",
    ResourceType.BROKER: "broker",
    ResourceType.GROUP: "group",
}
_TYPES = {kind: resource_type for resource_type, kind in _KINDS.items()}


class Refused(NamedTuple):
    error_code: ErrorCode
    text: str


def resource_of(resource_type: int, name: str) -> ConfigResource | Refused:
    """The resource whose settings are to be changed, or why that kind has none here."""
    try:
        return ConfigResource(_KINDS[ResourceType(resource_type)], name)
    except (ValueError, KeyError):
        return Refused(
            ErrorCode.INVALID_REQUEST, f"Unexpected resource type {resource_type}: nothing to alter"
        )


def type_of(resource: ConfigResource) -> ResourceType:
    return _TYPES[resource.kind]
