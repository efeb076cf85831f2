"""Decisions: quotas of users, client ids and addresses. PURE. Refusals use Kafka's wording."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_address

from floodmark.controller.decision import Decision, Refusal, View
from floodmark.controller.topics import config_operation
from floodmark.metadata import quota_nodes
from floodmark.metadata.image import ConfigResource, ImageChange
from floodmark.metadata.store import Operation
from floodmark.security.quota_entities import (
    CLIENT_ID,
    CONNECTION_CREATION_RATE,
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    DEFAULT,
    ENTITY_TYPES,
    IP,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    USER,
    QuotaEntity,
)
from floodmark.wire.errors import ErrorCode

_MOST = {"INT": 2**31 - 1, "LONG": 2**63 - 1, "DOUBLE": float("inf")}
_CLIENT_KEYS = {
    PRODUCER_BYTE_RATE: "LONG",
    CONSUMER_BYTE_RATE: "LONG",
    REQUEST_PERCENTAGE: "DOUBLE",
    CONTROLLER_MUTATION_RATE: "DOUBLE",
}
_ADDRESS_KEYS = {CONNECTION_CREATION_RATE: "INT"}
_NEARLY_WHOLE = 1e-6


@dataclass(frozen=True, slots=True)
class QuotaAlteration:
    """As in a request: the entity's parts (None is a default) and new values (None removes)."""

    entity: Sequence[tuple[str, str | None]]
    steps: Sequence[tuple[str, float | None]]


def alter_client_quotas(
    view: View, alterations: Sequence[QuotaAlteration], *, validate_only: bool = False
) -> Decision[list[Refusal | None]]:
    answers: list[Refusal | None] = []
    changed: dict[ConfigResource, Mapping[str, str] | None] = {}
    seen: set[QuotaEntity] = set()
    for alteration in alterations:
        entity = _entity(alteration.entity)
        outcome = entity if isinstance(entity, Refusal) else _steps(entity, alteration.steps)
        if isinstance(entity, QuotaEntity) and isinstance(outcome, dict):
            if entity in seen:
                outcome = _invalid(f"Ignoring duplicate entity {entity}")
            else:
                resource = quota_nodes.resource_of(entity)
                changed[resource] = _applied(view.image.config(*resource), outcome)
            seen.add(entity)
        answers.append(outcome if isinstance(outcome, Refusal) else None)
    if validate_only:
        return Decision(answers)
    return _decide(view, answers, changed)


def _decide(
    view: View,
    answers: list[Refusal | None],
    changed: dict[ConfigResource, Mapping[str, str] | None],
) -> Decision[list[Refusal | None]]:
    """Nodes are never deleted: one without quotas may have children or credentials."""
    nodes: dict[ConfigResource, Mapping[str, str] | None] = {}
    for resource, config in changed.items():
        if not config and resource not in view.image.configs:
            continue
        for folder in quota_nodes.folders_above(resource):
            if folder not in view.image.configs:
                nodes.setdefault(folder, {})
        nodes[resource] = config
    # A user's own node comes before those of its client ids.
    operations: list[Operation] = [
        config_operation(view.image, resource, nodes[resource] or {}) for resource in sorted(nodes)
    ]
    return Decision(answers, operations, ImageChange(configs=nodes))


def _entity(parts: Sequence[tuple[str, str | None]]) -> QuotaEntity | Refusal:
    if not parts:
        return _invalid("Invalid empty client quota entity")
    named: dict[str, str] = {}
    for entity_type, name in parts:
        if entity_type not in ENTITY_TYPES:
            return _invalid(f"Unhandled client quota entity type: {entity_type}")
        if entity_type in named:
            return _invalid(f"Invalid client quota entity, duplicate entity entry {entity_type}")
        if name == "":
            return _invalid(f"Empty {entity_type} not supported")
        named[entity_type] = DEFAULT if name is None else name
    if IP in named and len(named) > 1:
        return _invalid(
            "Invalid quota entity combination, IP entity should not be combined with User or "
            "ClientId"
        )
    ip = named.get(IP)
    if ip and not _is_address(ip):
        return _invalid(f"{ip} is not a valid IP or resolvable host.")
    return QuotaEntity(named.get(USER), named.get(CLIENT_ID), ip)


def _is_address(text: str) -> bool:
    """Host names are not resolved: clients are known by their addresses."""
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def _steps(
    entity: QuotaEntity, steps: Sequence[tuple[str, float | None]]
) -> dict[str, str | None] | Refusal:
    """The node's new values, None for removed ones."""
    values: dict[str, str | None] = {}
    keys = _CLIENT_KEYS if entity.ip is None else _ADDRESS_KEYS
    for key, value in steps:
        if key in values:
            return _invalid(
                f"Duplicate quota key {key} not updating quota for this entity {entity}"
            )
        if value is None:
            values[key] = None
            continue
        refusal = _check_value(keys, key, value)
        if refusal is not None:
            return refusal
        values[key] = repr(value) if keys[key] == "DOUBLE" else str(round(value))
    return values


def _check_value(keys: Mapping[str, str], key: str, value: float) -> Refusal | None:
    if key not in keys:
        return _invalid(f"Invalid configuration key {key}")
    if not value > 0:
        return _invalid(f"Quota {key} must be greater than 0")
    value_type = keys[key]
    if value > _MOST[value_type]:
        article = "an" if value_type == "INT" else "a"
        return _invalid(f"Proposed value for {key} is too large for {article} {value_type}.")
    if value_type != "DOUBLE" and abs(value % 1) > _NEARLY_WHOLE:
        return _invalid(f"{key} cannot be a fractional value.")
    return None


def _applied(config: Mapping[str, str], steps: Mapping[str, str | None]) -> dict[str, str]:
    merged = {**config, **steps}
    return {key: value for key, value in merged.items() if value is not None}


def _invalid(text: str) -> Refusal:
    return Refusal(ErrorCode.INVALID_REQUEST, text)
