"""Which quota counts for a client, and with whom it shares it: Kafka's order of precedence."""

from __future__ import annotations

import pytest

from floodmark.security.quota_entities import (
    CONNECTION_CREATION_RATE,
    CONSUMER_BYTE_RATE,
    DEFAULT,
    LONGEST_ID,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    Limit,
    QuotaEntity,
    QuotaLimits,
    short_id,
)

BOTH, USER, CLIENT = ("alice", "app"), ("alice", ""), ("", "app")

IN_ORDER = [
    (QuotaEntity("alice", "app"), BOTH),
    (QuotaEntity("alice", DEFAULT), BOTH),
    (QuotaEntity("alice"), USER),
    (QuotaEntity(DEFAULT, "app"), BOTH),
    (QuotaEntity(DEFAULT, DEFAULT), BOTH),
    (QuotaEntity(DEFAULT), USER),
    (QuotaEntity(client_id="app"), CLIENT),
    (QuotaEntity(client_id=DEFAULT), CLIENT),
]


@pytest.mark.parametrize("first", range(len(IN_ORDER)))
def test_the_most_specific_quota_counts(first: int) -> None:
    quotas = {
        entity: {PRODUCER_BYTE_RATE: float(place)}
        for place, (entity, _) in enumerate(IN_ORDER)
        if place >= first
    }
    limits = QuotaLimits(quotas)
    assert limits.limit("alice", "app", PRODUCER_BYTE_RATE) == Limit(first, IN_ORDER[first][1])


def test_each_key_is_looked_up_for_itself() -> None:
    limits = QuotaLimits(
        {
            QuotaEntity("alice", "app"): {PRODUCER_BYTE_RATE: 1.0},
            QuotaEntity(client_id="app"): {CONSUMER_BYTE_RATE: 2.0},
        }
    )
    assert limits.limit("alice", "app", PRODUCER_BYTE_RATE) == Limit(1.0, BOTH)
    assert limits.limit("alice", "app", CONSUMER_BYTE_RATE) == Limit(2.0, CLIENT)
    assert limits.limit("alice", "app", REQUEST_PERCENTAGE) is None
    assert limits.limit("bob", "other", PRODUCER_BYTE_RATE) is None
    assert (limits.has_client_quotas, limits.has_request_quotas) == (True, False)


def test_long_client_ids_are_counted_by_their_digest_and_have_their_own_quota() -> None:
    long, like_it = "x" * 32_000, "x" * 31_999
    limits = QuotaLimits(
        {
            QuotaEntity(client_id=long): {PRODUCER_BYTE_RATE: 1.0},
            QuotaEntity(client_id=DEFAULT): {PRODUCER_BYTE_RATE: 2.0},
        }
    )
    found = [limits.limit("alice", name, PRODUCER_BYTE_RATE) for name in (long, like_it)]
    assert found == [Limit(1.0, ("", short_id(long))), Limit(2.0, ("", short_id(like_it)))]
    assert short_id(long) != short_id(like_it)
    assert len(short_id(long)) <= LONGEST_ID and short_id("app") == "app"


def test_the_quota_of_an_address_or_else_the_default() -> None:
    limits = QuotaLimits(
        {
            QuotaEntity(ip="10.0.0.1"): {CONNECTION_CREATION_RATE: 5.0},
            QuotaEntity(ip="0:0:0:0:0:0:0:1"): {CONNECTION_CREATION_RATE: 7.0},
            QuotaEntity(ip=DEFAULT): {CONNECTION_CREATION_RATE: 9.0},
        }
    )
    assert limits.connection_rate("10.0.0.1") == 5
    assert limits.connection_rate("::1") == 7
    assert limits.connection_rate("10.0.0.2") == 9
    assert QuotaLimits({}).connection_rate("10.0.0.1") is None
    assert not limits.has_client_quotas
