"""The kinds of resources that have settings, by their number on the wire and in the metadata."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from floodmark.metadata.image import CLUSTER_DEFAULT, ConfigResource
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


def resource_of(resource_type: int, name: str, broker_id: int) -> ConfigResource | Refused:
    """The resource whose settings are to be changed, or why it has none here.

    Settings of a single broker are changed at that broker, which knows whether they can be.
    """
    try:
        resource = ConfigResource(_KINDS[ResourceType(resource_type)], name)
    except (ValueError, KeyError):
        return Refused(ErrorCode.INVALID_REQUEST, f"Unknown resource type {resource_type}")
    if resource.kind == "broker" and name not in (CLUSTER_DEFAULT, str(broker_id)):
        return Refused(ErrorCode.INVALID_REQUEST, _why_not_broker(name, broker_id))
    return resource


def _why_not_broker(name: str, broker_id: int) -> str:
    if not name.lstrip("+-").isdecimal():
        return f"Node id must be an integer, but it is: {name}"
    return f"Unexpected broker id, expected {broker_id}, but received {name}"


def type_of(resource: ConfigResource) -> ResourceType:
    return _TYPES[resource.kind]
