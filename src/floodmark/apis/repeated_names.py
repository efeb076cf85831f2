"""Drops repeated names from requests whose answers can be far larger than the names.

`apis.dispatch` wraps the decoders of these requests. A name takes a few bytes, but its answer may
have megabytes: the metadata of a group's members, or all of its offsets. Otherwise 4 KB that repeat
a name would stop the loop for seconds and take gigabytes. Clients find an answer by its name, so
one answer per name is enough.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from floodmark.wire.api_keys import ApiKey
from floodmark.wire.compiler import Decoder

if TYPE_CHECKING:
    # Loaded with the first request of their kind.
    from floodmark.wire.messages.describe_configs import DescribeConfigsResource
    from floodmark.wire.messages.offset_fetch import OffsetFetchRequestGroup


class Names(NamedTuple):
    """The list in a request, and the function that names its entries."""

    items: str
    name: Callable[[Any], Hashable]


def _itself(name: str) -> Hashable:
    return name


def _resource(resource: DescribeConfigsResource) -> Hashable:
    # None asks for all, an empty list for none.
    asked = resource.configuration_keys
    keys = None if asked is None else frozenset(asked)
    return resource.resource_type, resource.resource_name, keys


def _group(group: OffsetFetchRequestGroup) -> Hashable:
    """Drops repeats only of groups without topics (which means all): only their answers are larger
    than the request."""
    return group.group_id if group.topics is None else id(group)


NAMED_ONCE: Mapping[ApiKey, Names] = {
    ApiKey.CONSUMER_GROUP_DESCRIBE: Names("group_ids", _itself),
    ApiKey.DESCRIBE_CONFIGS: Names("resources", _resource),
    ApiKey.DESCRIBE_GROUPS: Names("groups", _itself),
    ApiKey.DESCRIBE_TRANSACTIONS: Names("transactional_ids", _itself),
    ApiKey.OFFSET_FETCH: Names("groups", _group),
}


def naming_once(names: Names, decode: Decoder[Any]) -> Decoder[Any]:
    """Wraps the decoder of such a request. Keeps the first entry of each name."""

    def decode_once(*arguments: Any) -> tuple[Any, int]:
        request, end = decode(*arguments)
        entries = getattr(request, names.items)
        first: dict[Hashable, Any] = {}
        for entry in entries:
            first.setdefault(names.name(entry), entry)
        if len(first) < len(entries):
            setattr(request, names.items, list(first.values()))
        return request, end

    return decode_once
