"""Paths of quotas as in Kafka 3.9: in the settings of users, client ids and addresses. PURE.

`/config/users/alice`, `/config/users/alice/clients/app`, `/config/clients/app`,
`/config/ips/10.0.0.1`, with `<default>` for a default. Users' nodes also hold SCRAM credentials.
Used by `controller.quotas` and `broker.quotas`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from urllib.parse import quote, unquote

from floodmark.metadata.image import ConfigResource
from floodmark.security.quota_entities import (
    CONNECTION_CREATION_RATE,
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    DEFAULT,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    QuotaEntity,
)

USER_KIND, CLIENT_KIND, IP_KIND = "user", "client", "ip"
_DEFAULT_NAME = "<default>"
_CLIENTS = "/clients"
_CLIENT_KEYS = (
    PRODUCER_BYTE_RATE,
    CONSUMER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    CONTROLLER_MUTATION_RATE,
)
KINDS = frozenset({USER_KIND, CLIENT_KIND, IP_KIND})
_KEYS = {USER_KIND: _CLIENT_KEYS, CLIENT_KIND: _CLIENT_KEYS, IP_KIND: (CONNECTION_CREATION_RATE,)}


def resource_of(entity: QuotaEntity) -> ConfigResource:
    """Where an entity's quotas are stored. Names in the image are escaped like node names."""
    user, client_id, ip = entity
    if ip is not None:
        return ConfigResource(IP_KIND, node_name(ip))
    if user is None:
        return ConfigResource(CLIENT_KIND, node_name(client_id or DEFAULT))
    if client_id is None:
        return ConfigResource(USER_KIND, node_name(user))
    return ConfigResource(USER_KIND, f"{node_name(user)}{_CLIENTS}/{node_name(client_id)}")


def user_resource(name: str) -> ConfigResource:
    """A user's settings: SCRAM credentials and quotas."""
    return ConfigResource(USER_KIND, node_name(name))


def user_of(resource: ConfigResource) -> str | None:
    """The user these settings belong to; None if they are not a single user's."""
    if resource.kind != USER_KIND or "/" in resource.name or resource.name == _DEFAULT_NAME:
        return None
    return unquote(resource.name)


def folders_above(resource: ConfigResource) -> list[ConfigResource]:
    """The nodes that must exist before this one, outermost first."""
    user, clients, _ = resource.name.partition(f"{_CLIENTS}/")
    if resource.kind != USER_KIND or not clients:
        return []
    return [ConfigResource(USER_KIND, user), ConfigResource(USER_KIND, f"{user}{_CLIENTS}")]


def is_folder(resource: ConfigResource) -> bool:
    """Whether it is not an entity itself, but the parent of a user's client ids."""
    return resource.kind == USER_KIND and resource.name.endswith(_CLIENTS)


def quotas_in(
    configs: Mapping[ConfigResource, Mapping[str, str]],
) -> dict[QuotaEntity, dict[str, float]]:
    """All quotas in the settings. Ignores values that are not numbers: other tools write, too."""
    quotas = {}
    for resource, config in configs.items():
        found = {key: _number(config.get(key)) for key in _KEYS.get(resource.kind, ())}
        values = {key: value for key, value in found.items() if value is not None}
        if values:
            quotas[_entity_of(resource)] = values
    return quotas


def _number(text: str | None) -> float | None:
    try:
        value = float(text or "")
    except ValueError:
        return None
    return None if math.isnan(value) else value


def _entity_of(resource: ConfigResource) -> QuotaEntity:
    if resource.kind == IP_KIND:
        return QuotaEntity(ip=_name_of(resource.name))
    if resource.kind == CLIENT_KIND:
        return QuotaEntity(client_id=_name_of(resource.name))
    user, clients, client_id = resource.name.partition(f"{_CLIENTS}/")
    return QuotaEntity(_name_of(user), _name_of(client_id) if clients else None)


def node_name(name: str) -> str:
    """Escapes like Java's URLEncoder, as Kafka does, and also names that are path steps."""
    if name == DEFAULT:
        return _DEFAULT_NAME
    if name in (".", ".."):
        return name.replace(".", "%2E")
    return quote(name, safe="").replace("~", "%7E")


def _name_of(node: str) -> str:
    return DEFAULT if node == _DEFAULT_NAME else unquote(node)
