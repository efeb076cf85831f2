"""Where a client's OAUTHBEARER token comes from when its source fails."""

import pytest

from floodmark.client.cluster.security import Security
from floodmark.client.errors import AuthenticationError
from floodmark.client.security_settings import SecuritySettings


class Source:
    """A function of the user's."""

    def __init__(self, *outcomes: str | Exception) -> None:
        self._outcomes = list(outcomes)

    def __call__(self) -> str:
        outcome = self._outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome


def security(source: Source) -> Security:
    return Security(
        SecuritySettings(
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism="OAUTHBEARER",
            sasl_oauthbearer_token=source,
        )
    )


async def first_message(client: Security) -> bytes:
    return (await client.mechanism()).first()


async def test_the_last_token_is_used_while_no_new_one_can_be_had() -> None:
    """A reconnection must not fail all records because an endpoint is away: the broker judges."""
    client = security(Source("one", ConnectionError("away"), "two"))
    said = [await first_message(client) for _ in range(3)]
    assert b"auth=Bearer one" in said[0]
    assert said[1] == said[0]
    assert b"auth=Bearer two" in said[2]


async def test_a_source_that_raises_is_an_error_of_authentication() -> None:
    """Any other exception would end the client's background tasks."""
    client = security(Source(LookupError("no secret store")))
    with pytest.raises(AuthenticationError, match=r"could not get a token.*no secret store"):
        await first_message(client)
