"""Quota entities: users, client ids, pairs of both, addresses, and their defaults. PURE.

A quota is a number under one of Kafka's keys. `QuotaLimits` finds the one that applies to a client,
in Kafka's order of precedence, and the clients that share it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

from floodmark.security.addresses import canonical_address

DEFAULT = ""
"""Stands for the default of a user, client id or address. Kafka's requests use null."""

PRODUCER_BYTE_RATE = "producer_byte_rate"
CONSUMER_BYTE_RATE = "consumer_byte_rate"
REQUEST_PERCENTAGE = "request_percentage"
CONTROLLER_MUTATION_RATE = "controller_mutation_rate"
CONNECTION_CREATION_RATE = "connection_creation_rate"

USER, CLIENT_ID, IP = "user", "client-id", "ip"
ENTITY_TYPES = (USER, CLIENT_ID, IP)


class QuotaEntity(NamedTuple):
    """None means that a part is not named."""

    user: str | None = None
    client_id: str | None = None
    ip: str | None = None

    @property
    def parts(self) -> dict[str, str]:
        """The named parts, by Kafka's type names."""
        named = zip(ENTITY_TYPES, self, strict=True)
        return {entity_type: name for entity_type, name in named if name is not None}

    def __str__(self) -> str:
        """As Kafka's refusals name it."""
        names = (f"{kind}={name or 'null'}" for kind, name in self.parts.items())
        return f"ClientQuotaEntity(entries={{{', '.join(names)}}})"


Quotas: TypeAlias = Mapping[QuotaEntity, Mapping[str, float]]

Sharers: TypeAlias = tuple[str, str]
"""The user and client id that share a quota; empty where it does not depend on one."""

LONGEST_ID = 255
"""Longer client ids count by their digest: clients make up as many as they like, of up to 32 KB."""


def short_id(client_id: str) -> str:
    """Short enough to be kept for each of many clients."""
    if len(client_id) <= LONGEST_ID:
        return client_id
    return f"sha256:{hashlib.sha256(client_id.encode()).hexdigest()}"


class Limit(NamedTuple):
    value: float
    sharers: Sharers


class QuotaLimits:
    def __init__(self, quotas: Quotas) -> None:
        self._quotas = quotas
        keys = {key for values in quotas.values() for key in values}
        self.has_client_quotas = bool(keys - {CONNECTION_CREATION_RATE})
        self.has_request_quotas = REQUEST_PERCENTAGE in keys
        self._by_address = {
            canonical_address(entity.ip): values[CONNECTION_CREATION_RATE]
            for entity, values in quotas.items()
            if entity.ip is not None and CONNECTION_CREATION_RATE in values
        }

    def limit(self, user: str, client_id: str, key: str) -> Limit | None:
        """The limit that applies to a client, or None."""
        counted_as = short_id(client_id)
        both, of_user, of_client = (user, counted_as), (user, ""), ("", counted_as)
        for entity, sharers in (
            (QuotaEntity(user, client_id), both),
            (QuotaEntity(user, DEFAULT), both),
            (QuotaEntity(user), of_user),
            (QuotaEntity(DEFAULT, client_id), both),
            (QuotaEntity(DEFAULT, DEFAULT), both),
            (QuotaEntity(DEFAULT), of_user),
            (QuotaEntity(client_id=client_id), of_client),
            (QuotaEntity(client_id=DEFAULT), of_client),
        ):
            value = self._quotas.get(entity, {}).get(key)
            if value is not None:
                return Limit(value, sharers)
        return None

    def connection_rate(self, address: str) -> float | None:
        """How many connections per second an address may open."""
        of_address = self._by_address
        return of_address.get(address, of_address.get(DEFAULT))
