"""Decision: SCRAM credentials of users (AlterUserScramCredentials). PURE.

They are stored in a user's settings under the mechanism's name, as in Kafka's ZooKeeper mode. A
user whose change is refused keeps its credentials. Other users in the request are unaffected.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from floodmark.controller.decision import Decision, Refusal, View
from floodmark.controller.topics import config_operation
from floodmark.metadata.image import ConfigResource, ImageChange
from floodmark.metadata.quota_nodes import user_resource
from floodmark.metadata.store import Operation
from floodmark.security.sasl import SCRAM_SHA_256, SCRAM_SHA_512
from floodmark.security.scram_credentials import MAX_ITERATIONS, MIN_ITERATIONS, ScramCredential
from floodmark.wire.errors import ErrorCode

MECHANISM_NUMBERS: Mapping[int, str] = {1: SCRAM_SHA_256, 2: SCRAM_SHA_512}
"""Kafka's numbers for the mechanisms in requests."""


class CredentialChange(NamedTuple):
    """No credential means deletion. `mechanism` is the number from the request, known or not."""

    user: str
    mechanism: int
    credential: ScramCredential | None


class CredentialAnswer(NamedTuple):
    user: str
    error_code: ErrorCode = ErrorCode.NONE
    message: str | None = None


def alter_scram_credentials(
    view: View, changes: Sequence[CredentialChange]
) -> Decision[list[CredentialAnswer]]:
    by_user: dict[str, list[CredentialChange]] = {}
    for change in changes:
        by_user.setdefault(change.user, []).append(change)
    answers: list[CredentialAnswer] = []
    operations: list[Operation] = []
    changed: dict[ConfigResource, Mapping[str, str] | None] = {}
    for user, of_user in by_user.items():
        config = _changed(view, user, of_user)
        if isinstance(config, Refusal):
            answers.append(CredentialAnswer(user, *config))
            continue
        answers.append(CredentialAnswer(user))
        resource = user_resource(user)
        operations.append(config_operation(view.image, resource, config))
        changed[resource] = config
    return Decision(answers, operations, ImageChange(configs=changed))


def _changed(
    view: View, user: str, changes: Sequence[CredentialChange]
) -> dict[str, str] | Refusal:
    if not user:
        return Refusal(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
    if len({change.mechanism for change in changes}) != len(changes):
        return Refusal(
            ErrorCode.DUPLICATE_RESOURCE,
            "A user credential cannot be altered twice in the same request",
        )
    config = dict(view.image.config(*user_resource(user)))
    for change in changes:
        refusal = _take(config, change)
        if refusal is not None:
            return refusal
    return config


def _take(config: dict[str, str], change: CredentialChange) -> Refusal | None:
    mechanism = MECHANISM_NUMBERS.get(change.mechanism)
    if mechanism is None:
        return Refusal(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
    credential = change.credential
    if credential is None:
        if config.pop(mechanism, None) is None:
            return Refusal(
                ErrorCode.RESOURCE_NOT_FOUND,
                "Attempt to delete a user credential that does not exist",
            )
        return None
    if credential.iterations < MIN_ITERATIONS:
        return Refusal(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations")
    if credential.iterations > MAX_ITERATIONS:
        return Refusal(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations")
    config[mechanism] = credential.text()
    return None
