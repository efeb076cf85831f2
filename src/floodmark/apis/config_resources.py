"""The kinds of resources with settings, by their number on the wire and in the metadata."""

from __future__ import annotations

from typing import NamedTuple

from floodmark.apis.access import Each
from floodmark.apis.authorizer import Operation, ResourceKind
from floodmark.metadata.image import CLUSTER_DEFAULT, ConfigResource, MetadataImage
from floodmark.wire.errors import ErrorCode
from floodmark.wire.numbers import ResourceType

_KINDS = {
    ResourceType.TOPIC: "topic",
    ResourceType.BROKER: "broker",
    ResourceType.GROUP: "group",
}
_TYPES = {kind: resource_type for resource_type, kind in _KINDS.items()}


class Refused(NamedTuple):
    error_code: ErrorCode
    text: str


def resource_of(
    resource_type: int, name: str, broker_id: int, image: MetadataImage
) -> ConfigResource | Refused:
    """The resource to change, or why it has no settings here.

    Clients send a broker's settings to that broker, which forwards them to the controller. So they
    may belong to any live broker.
    """
    try:
        resource = ConfigResource(_KINDS[ResourceType(resource_type)], name)
    except (ValueError, KeyError):
        return Refused(ErrorCode.INVALID_REQUEST, f"Unknown resource type {resource_type}")
    live = (str(broker.id) for broker in image.live_brokers())
    if resource.kind == "broker" and name not in (CLUSTER_DEFAULT, str(broker_id), *live):
        return Refused(ErrorCode.INVALID_REQUEST, _why_not_broker(name, broker_id))
    return resource


def _why_not_broker(name: str, broker_id: int) -> str:
    if not name.lstrip("+-").isdecimal():
        return f"Node id must be an integer, but it is: {name}"
    return f"Unexpected broker id, expected {broker_id}, but received {name}"


def type_of(resource: ConfigResource) -> ResourceType:
    return _TYPES[resource.kind]


_ASKED_ABOUT = {
    ResourceKind.TOPIC: (ResourceType.TOPIC,),
    ResourceKind.GROUP: (ResourceType.GROUP,),
    ResourceKind.CLUSTER: (
        ResourceType.BROKER,
        ResourceType.BROKER_LOGGER,
        ResourceType.CLIENT_METRICS,
    ),
}


def each_config_resource(operation: Operation, answers: str) -> tuple[Each, ...]:
    """What to check for each resource in a list, by kind."""
    return tuple(_each_of(operation, answers, kind, types) for kind, types in _ASKED_ABOUT.items())


def _each_of(
    operation: Operation, answers: str, kind: ResourceKind, types: tuple[ResourceType, ...]
) -> Each:
    return Each(
        operation=operation,
        kind=kind,
        items="resources",
        answers=answers,
        name=lambda context, resource: resource.resource_name,
        applies=lambda context, request, resource: resource.resource_type in types,
    )
