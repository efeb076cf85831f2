"""Delegation tokens: their times, and who may change them."""

import base64

import pytest

from floodmark.security.delegation_tokens import (
    DelegationToken,
    Lifetimes,
    NotTheRenewer,
    TokenIsOver,
    expire,
    hmac_of,
    issue,
    password_of,
    renew,
)

NOW_MS = 1_000_000
LIFETIMES = Lifetimes(max_ms=7_000, expiry_ms=1_000)
ALICE, BOB, EVE = "User:alice", "User:bob", "User:eve"


def token(max_lifetime_ms: int = -1) -> DelegationToken:
    return issue("id", ALICE, ALICE, (BOB,), max_lifetime_ms, LIFETIMES, NOW_MS)


@pytest.mark.parametrize(
    ("wanted_ms", "max_ms", "expiry_ms"),
    [
        (-1, 7_000, 1_000),
        (0, 7_000, 1_000),
        (500, 500, 500),
        (3_000, 3_000, 1_000),
        (9_000, 7_000, 1_000),
    ],
)
def test_the_settings_bound_a_new_token(wanted_ms, max_ms, expiry_ms):
    made = token(wanted_ms)
    assert (made.max_ms - NOW_MS, made.expiry_ms - NOW_MS) == (max_ms, expiry_ms)


@pytest.mark.parametrize("principal", [ALICE, BOB])
@pytest.mark.parametrize(
    ("period_ms", "left_ms"), [(-1, 1_000), (0, 0), (3_000, 3_000), (9_000, 6_500)]
)
def test_owner_and_renewer_prolong_it_up_to_its_greatest_age(principal, period_ms, left_ms):
    now_ms = NOW_MS + 500
    assert renew(token(), principal, period_ms, LIFETIMES, now_ms).expiry_ms - now_ms == left_ms


def test_a_stranger_neither_renews_nor_ends_it():
    with pytest.raises(NotTheRenewer):
        renew(token(), EVE, -1, LIFETIMES, NOW_MS)
    for period_ms in (-1, 100):
        with pytest.raises(NotTheRenewer):
            expire(token(), EVE, period_ms, NOW_MS)


def test_a_token_that_is_over_cannot_be_renewed_but_ended():
    later_ms = NOW_MS + 1_001
    with pytest.raises(TokenIsOver):
        renew(token(), ALICE, -1, LIFETIMES, later_ms)
    with pytest.raises(TokenIsOver):
        expire(token(), ALICE, 100, later_ms)
    assert expire(token(), ALICE, -1, later_ms) is None


def test_it_may_be_ended_later():
    shortened = expire(token(), BOB, 100, NOW_MS)
    assert shortened is not None
    assert shortened.expiry_ms == NOW_MS + 100


def test_the_requester_may_see_it_but_not_renew_it():
    made = issue("id", ALICE, EVE, (), -1, LIFETIMES, NOW_MS)
    assert made.concerns(EVE)
    with pytest.raises(NotTheRenewer):
        renew(made, EVE, -1, LIFETIMES, NOW_MS)


def test_the_secret_is_the_hmac_of_the_id():
    """By `printf id | openssl dgst -sha512 -hmac key -binary | base64`."""
    assert password_of(hmac_of("id", "key")) == EXPECTED
    assert len(base64.b64decode(EXPECTED)) == 64


EXPECTED = (
    "aSA7IkWyB8Yvd5QD6kFnqpTOWxStWVN2+Jx9S1KGvERNr7Vtzbym26dQs3UQ858IduHslsBkS5g2QsF591iFjA=="
)


def test_the_times_of_a_token_that_never_ends_fit_into_a_response():
    longest = Lifetimes(2**63 - 1, 2**63 - 1)
    made = issue("id", ALICE, ALICE, (), -1, longest, NOW_MS)
    assert (made.max_ms, made.expiry_ms) == (2**63 - 1, 2**63 - 1)
    assert renew(made, ALICE, -1, longest, NOW_MS).expiry_ms == 2**63 - 1
