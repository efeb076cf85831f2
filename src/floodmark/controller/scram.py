"""Decisions: the SCRAM credentials of users (KIP-554). PURE.

Kept as Kafka 3.9 keeps them, among the settings of a user: never the password, only what proves
that a client knows it. Without a listener that asks for SASL they have no use yet, as in Kafka.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

from floodmark.controller.decision import Decision, Refusal, View
from floodmark.controller.topics import config_operation
from floodmark.metadata import paths
from floodmark.metadata.image import ConfigResource, ImageChange, MetadataImage
from floodmark.metadata.store import Operation
from floodmark.wire.errors import ErrorCode

MIN_ITERATIONS = 4096
MAX_ITERATIONS = 16384
"""Kafka's bounds: fewer are guessed too easily, more would let a client choose our work."""


class ScramMechanism(IntEnum):
    """By its number on the wire."""

    SHA_256 = 1
    SHA_512 = 2

    @property
    def setting(self) -> str:
        """The name under which the credential is kept."""
        return f"SCRAM-{self.digest.replace('sha', 'SHA-')}"

    @property
    def digest(self) -> str:
        return "sha256" if self is ScramMechanism.SHA_256 else "sha512"


@dataclass(frozen=True, slots=True)
class ScramDeletion:
    user: str
    mechanism: int


@dataclass(frozen=True, slots=True)
class ScramUpsertion:
    user: str
    mechanism: int
    iterations: int
    salt: bytes
    salted_password: bytes


@dataclass(frozen=True, slots=True)
class ScramAnswer:
    user: str
    error_code: ErrorCode = ErrorCode.NONE
    message: str | None = None


def alter_scram_credentials(
    view: View, deletions: Sequence[ScramDeletion], upsertions: Sequence[ScramUpsertion]
) -> Decision[list[ScramAnswer]]:
    """A user may be named once: what was meant by two changes at a time cannot be known."""
    outcomes: dict[str, dict[str, str] | Refusal] = {}
    wanted: list[ScramDeletion | ScramUpsertion] = [*deletions, *upsertions]
    for change in wanted:
        found = outcomes.get(change.user)
        if isinstance(found, Refusal):
            continue
        outcomes[change.user] = (
            _changed(view.image, change)
            if found is None
            else Refusal(
                ErrorCode.DUPLICATE_RESOURCE,
                "A user credential cannot be altered twice in the same request",
            )
        )
    answers: list[ScramAnswer] = []
    operations: list[Operation] = []
    changes: dict[ConfigResource, Mapping[str, str] | None] = {}
    for user, outcome in outcomes.items():
        if isinstance(outcome, Refusal):
            answers.append(ScramAnswer(user, *outcome))
            continue
        answers.append(ScramAnswer(user))
        resource = _resource(user)
        operations.append(config_operation(view.image, resource, outcome))
        changes[resource] = outcome
    return Decision(answers, operations, ImageChange(configs=changes))


def credentials(image: MetadataImage) -> dict[str, dict[ScramMechanism, int]]:
    """The iterations of every user's credentials, which is all that anybody may know of them."""
    found: dict[str, dict[ScramMechanism, int]] = {}
    for resource, settings in image.configs.items():
        entity = paths.client_entity(resource)
        if entity is None or list(entity) != ["user"] or entity["user"] is None:
            continue
        of_user = {
            mechanism: _iterations(settings[mechanism.setting])
            for mechanism in ScramMechanism
            if mechanism.setting in settings
        }
        if of_user:
            found[entity["user"]] = of_user
    return found


def _resource(user: str) -> ConfigResource:
    return paths.client_resource({"user": user})


def _changed(
    image: MetadataImage, change: ScramDeletion | ScramUpsertion
) -> dict[str, str] | Refusal:
    """The settings of a user after a change, or why it cannot be."""
    if not change.user:
        return Refusal(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
    if change.mechanism not in set(ScramMechanism):
        return Refusal(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
    mechanism = ScramMechanism(change.mechanism)
    settings = dict(image.config(*_resource(change.user)))
    if isinstance(change, ScramUpsertion):
        if change.iterations < MIN_ITERATIONS:
            return Refusal(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations")
        if change.iterations > MAX_ITERATIONS:
            return Refusal(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations")
        settings[mechanism.setting] = _credential(mechanism, change)
    elif settings.pop(mechanism.setting, None) is None:
        return Refusal(
            ErrorCode.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist"
        )
    return settings


def _credential(mechanism: ScramMechanism, change: ScramUpsertion) -> str:
    """RFC 5802's stored key and server key, in the text that Kafka keeps."""
    client_key = hmac.digest(change.salted_password, b"Client Key", mechanism.digest)
    stored_key = hashlib.new(mechanism.digest, client_key).digest()
    server_key = hmac.digest(change.salted_password, b"Server Key", mechanism.digest)
    parts = {"salt": change.salt, "stored_key": stored_key, "server_key": server_key}
    encoded = [f"{name}={base64.b64encode(value).decode()}" for name, value in parts.items()]
    return ",".join([*encoded, f"iterations={change.iterations}"])


def _iterations(credential: str) -> int:
    return int(credential.rpartition("iterations=")[2])
