"""SCRAM users: describes credentials and sets passwords. Called by `admin.py`.

A password never leaves this process. Only its salted hash is sent.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass

from floodmark.client.cluster.cluster import Cluster
from floodmark.client.errors import KafkaError, error_of, raise_for_code
from floodmark.security.sasl import SCRAM_HASHES, SCRAM_SHA_256, SCRAM_SHA_512
from floodmark.security.scram_credentials import salted_password
from floodmark.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from floodmark.wire.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    UserName,
)

DEFAULT_MECHANISM = SCRAM_SHA_512
DEFAULT_ITERATIONS = 4096
SALT_BYTES = 20
_NUMBERS = {SCRAM_SHA_256: 1, SCRAM_SHA_512: 2}
_NAMES = {number: name for name, number in _NUMBERS.items()}


@dataclass(frozen=True, slots=True)
class UserDescription:
    name: str
    iterations: dict[str, int]
    """By mechanism name."""
    error: KafkaError | None = None


def upsertion(
    name: str, password: str, mechanism: str, iterations: int
) -> ScramCredentialUpsertion:
    salt = secrets.token_bytes(SALT_BYTES)
    return ScramCredentialUpsertion(
        name=name,
        mechanism=number_of(mechanism),
        iterations=iterations,
        salt=salt,
        salted_password=salted_password(SCRAM_HASHES[mechanism], password, salt, iterations),
    )


def deletion(name: str, mechanism: str) -> ScramCredentialDeletion:
    return ScramCredentialDeletion(name=name, mechanism=number_of(mechanism))


def number_of(mechanism: str) -> int:
    if mechanism not in _NUMBERS:
        raise ValueError(f"{mechanism} is not one of {', '.join(_NUMBERS)}")
    return _NUMBERS[mechanism]


async def alter(
    cluster: Cluster,
    upsertions: Sequence[ScramCredentialUpsertion],
    deletions: Sequence[ScramCredentialDeletion],
) -> None:
    """Raises KafkaError for the first user refused."""
    message = AlterUserScramCredentialsRequest(
        upsertions=list(upsertions), deletions=list(deletions)
    )

    async def attempt() -> None:
        connection = await cluster.controller_connection()
        response: AlterUserScramCredentialsResponse = await connection.request(message)
        for result in response.results:
            raise_for_code(result.error_code, result.error_message)

    await cluster.retry(attempt)


async def describe(cluster: Cluster, names: Sequence[str] | None) -> list[UserDescription]:
    users = None if names is None else [UserName(name=name) for name in names]

    async def attempt() -> list[UserDescription]:
        response: DescribeUserScramCredentialsResponse = await cluster.request(
            DescribeUserScramCredentialsRequest(users=users)
        )
        raise_for_code(response.error_code, response.error_message)
        return [
            UserDescription(
                result.user,
                {
                    _NAMES.get(info.mechanism, str(info.mechanism)): info.iterations
                    for info in result.credential_infos
                },
                error_of(result.error_code, result.error_message),
            )
            for result in response.results
        ]

    return await cluster.retry(attempt)
