"""Decisions: the quotas of users, client ids and addresses (KIP-546). PURE.

Kept as Kafka 3.9 keeps them. They are kept and told, and nobody is slowed down by them yet.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_address

from floodmark.controller.decision import Decision, Refusal, View
from floodmark.controller.topics import config_operation
from floodmark.metadata import paths
from floodmark.metadata.image import ConfigResource, ImageChange, MetadataImage
from floodmark.metadata.store import Create, Operation
from floodmark.wire.errors import ErrorCode

USER, CLIENT_ID, IP = "user", "client-id", "ip"
MAX_INT, MAX_LONG = 2**31 - 1, 2**63 - 1
MAX_REMAINDER = 1e-6
"""A whole number travels as a float: so much of a rest is its rounding."""

# The largest whole number that a quota may be; None for those that need not be whole.
_CLIENT_QUOTAS: dict[str, int | None] = {
    "producer_byte_rate": MAX_LONG,
    "consumer_byte_rate": MAX_LONG,
    "request_percentage": None,
    "controller_mutation_rate": None,
}
_IP_QUOTAS: dict[str, int | None] = {"connection_creation_rate": MAX_INT}

Entity = Mapping[str, str | None]
"""Names by type of entity; None is the default of that type."""


@dataclass(frozen=True, slots=True)
class QuotaStep:
    """A new value, or None to take the quota away."""

    name: str
    value: float | None


@dataclass(frozen=True, slots=True)
class QuotaAlteration:
    """`entity` as it was asked for, with types that may be unknown or there twice."""

    entity: Sequence[tuple[str, str | None]]
    steps: Sequence[QuotaStep]


@dataclass(frozen=True, slots=True)
class QuotaAnswer:
    entity: Sequence[tuple[str, str | None]]
    error_code: ErrorCode = ErrorCode.NONE
    message: str | None = None


def alter_client_quotas(
    view: View, alterations: Sequence[QuotaAlteration], *, validate_only: bool = False
) -> Decision[list[QuotaAnswer]]:
    answers: list[QuotaAnswer] = []
    operations: list[Operation] = []
    image, change = view.image, ImageChange()
    for alteration in alterations:
        refusal = _why_invalid(alteration)
        if refusal is not None:
            answers.append(QuotaAnswer(alteration.entity, *refusal))
            continue
        answers.append(QuotaAnswer(alteration.entity))
        if not validate_only:
            made, more = _store(image, alteration)
            operations += made
            image, change = image.apply(more), change.then(more)
    return Decision(answers, operations, change)


def client_quotas(image: MetadataImage) -> list[tuple[Entity, dict[str, float]]]:
    """Every entity that has a quota."""
    found: list[tuple[Entity, dict[str, float]]] = []
    for resource, settings in image.configs.items():
        entity = paths.client_entity(resource)
        known = _IP_QUOTAS if entity is not None and IP in entity else _CLIENT_QUOTAS
        quotas = {name: float(value) for name, value in settings.items() if name in known}
        if entity is not None and quotas:
            found.append((entity, quotas))
    return found


def _store(
    image: MetadataImage, alteration: QuotaAlteration
) -> tuple[list[Operation], ImageChange]:
    resource = paths.client_resource(dict(alteration.entity))
    settings = dict(image.config(*resource))
    for step in alteration.steps:
        if step.value is None:
            settings.pop(step.name, None)
        else:
            settings[step.name] = _text(step.name, step.value)
    if settings == image.config(*resource):
        return [], ImageChange()
    operations: list[Operation] = []
    changes: dict[ConfigResource, Mapping[str, str] | None] = {resource: settings}
    user = paths.user_above(resource)
    if user is not None:
        # A client id of a user lies two nodes below the user, who need not have any settings.
        if user not in image.configs:
            operations.append(config_operation(image, user, {}))
            changes[user] = {}
        if not any(paths.user_above(known) == user for known in image.configs):
            operations.append(Create(paths.clients_path(user)))
    return [*operations, config_operation(image, resource, settings)], ImageChange(configs=changes)


def _text(name: str, value: float) -> str:
    return str(value) if _CLIENT_QUOTAS.get(name, MAX_INT) is None else str(round(value))


# -- checks ---------------------------------------------------------------------------------------


def _why_invalid(alteration: QuotaAlteration) -> Refusal | None:
    names = [step.name for step in alteration.steps]
    twice = next((name for name in names if names.count(name) > 1), None)
    reason = _why_no_entity(alteration.entity)
    if reason is None and twice is not None:
        reason = f"Duplicate quota key {twice}"
    if reason is None:
        of_address = alteration.entity[0][0] == IP
        known = _IP_QUOTAS if of_address else _CLIENT_QUOTAS
        reasons = (_why_no_quota(known, step) for step in alteration.steps)
        reason = next((one for one in reasons if one is not None), None)
    return None if reason is None else Refusal(ErrorCode.INVALID_REQUEST, reason)


def _why_no_entity(entity: Sequence[tuple[str, str | None]]) -> str | None:
    types = [entity_type for entity_type, _ in entity]
    if not types:
        return "Invalid empty client quota entity"
    for entity_type, name in entity:
        if entity_type not in (USER, CLIENT_ID, IP):
            return f"Unhandled client quota entity type: {entity_type}"
        if types.count(entity_type) > 1:
            return f"Invalid client quota entity, duplicate entity entry {entity_type}"
        if name == "":
            return f"Empty {entity_type} not supported"
    if IP not in types:
        return None
    if len(types) > 1:
        return (
            "Invalid quota entity combination, IP entity should not be combined with User or "
            "ClientId"
        )
    return _why_no_address(entity[0][1])


def _why_no_address(text: str | None) -> str | None:
    """Kafka takes names too and resolves them, which a decision cannot."""
    try:
        if text is not None:
            ip_address(text)
    except ValueError:
        return f"{text} is not a valid IP address."
    return None


def _why_no_quota(known: Mapping[str, int | None], step: QuotaStep) -> str | None:
    if step.value is None:
        return None
    if step.name not in known:
        return f"Invalid configuration key {step.name}"
    if not step.value > 0 or math.isinf(step.value):
        return f"Quota {step.name} must be greater than 0"
    largest = known[step.name]
    if largest is None:
        return None
    if step.value > largest:
        return f"Proposed value for {step.name} is too large."
    if step.value % 1 > MAX_REMAINDER:
        return f"{step.name} cannot be a fractional value."
    return None
