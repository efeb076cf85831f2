"""The kinds of resources that have settings, by their number on the wire and in the metadata."""

from __future__ import annotations

from enum import IntEnum

from floodmark.metadata.image import ConfigResource


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


def resource_of(resource_type: int, name: str) -> ConfigResource | None:
    """None for a kind that has no settings here."""
    try:
        return ConfigResource(_KINDS[ResourceType(resource_type)], name)
    except (ValueError, KeyError):
        return None


def type_of(resource: ConfigResource) -> ResourceType:
    return _TYPES[resource.kind]
