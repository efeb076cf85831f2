"""Patterns of clients: what they match, and that none of them keeps the loop."""

import time

import pytest

from floodmark.coordinators.groups.subscriptions import matching_topics
from floodmark.coordinators.patterns import InvalidPattern, full_match_of
from floodmark.coordinators.ports import CoordinatorError
from floodmark.wire.errors import ErrorCode

NAMES = ["a", "orders-1", "orders-2", "team.x_y"]


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("orders-.*", {"orders-1", "orders-2"}),
        (".", {"a"}),
        ("\\pL+", {"a"}),
        ("(?i)ORDERS-[^2]", {"orders-1"}),
        ("caf\u00e9|a", {"a"}),
        ("|".join(f"some-topic-of-team-{number}" for number in range(60)) + "|a", {"a"}),
    ],
)
def test_whole_names_match(pattern: str, expected: set[str]) -> None:
    assert matching_topics(pattern, NAMES) == expected


def test_ids_may_have_any_letters() -> None:
    matches = full_match_of("x-.")
    assert matches("x-\u4e00") and not matches("x-\u4e00\u4e00")


@pytest.mark.parametrize(
    "pattern",
    [
        "(?i)" + "[\\pL\\pN\\d]" * 300,
        "((a{1,30}){1,30}){1,1}b" * 10,
        "(\\pL{1,99}\\PN{1,99}){1,5}" * 10,
        "(a|b)*a(a|b){900}",
        "x" * 4097,
        "(",
    ],
)
def test_a_pattern_that_is_too_much_or_none_is_refused_at_once(pattern: str) -> None:
    began_s = time.thread_time()
    with pytest.raises(InvalidPattern):
        full_match_of(pattern)
    assert time.thread_time() - began_s < 0.1


def test_who_subscribes_is_told_that_the_pattern_is_not_accepted() -> None:
    with pytest.raises(CoordinatorError) as refused:
        matching_topics("(\\pL{1,99}){1,9}" * 3, NAMES)
    assert refused.value.error_code is ErrorCode.INVALID_REGULAR_EXPRESSION


def test_the_slowest_pattern_that_is_accepted_is_matched_in_a_moment() -> None:
    names = [
        f"{number:b}".rjust(30, "0").replace("0", "a").replace("1", "b") for number in range(500)
    ]
    began_s = time.thread_time()
    matching_topics("(a|b)*a(a|b){20}(a|b)*a(a|b){100}|(a|b)*a(a|b){60}", names)
    assert time.thread_time() - began_s < 0.1
