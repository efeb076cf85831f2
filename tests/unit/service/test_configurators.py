"""Override and absent rules: which of them a provider's URL follows."""

import pytest

from floodmark.service.configurators import apply_rules, parse_rules
from floodmark.service.url import URL, encode

INTERFACE = "dev.shop.Orders"
PROVIDER = URL(
    "dubbo",
    "10.0.0.1",
    20880,
    INTERFACE,
    {"application": "shop", "side": "provider", "timeout": "1000"},
)


def timeout_after(*rules: str, url: URL = PROVIDER) -> str:
    return apply_rules(url, [URL.parse(rule) for rule in rules]).get("timeout")


@pytest.mark.parametrize(
    ("rule", "timeout"),
    [
        (f"override://0.0.0.0/{INTERFACE}?timeout=5", "5"),
        (f"override://10.0.0.1:20880/{INTERFACE}?timeout=5", "5"),
        (f"override://0.0.0.0:20880/{INTERFACE}?timeout=5", "5"),
        (f"override://10.0.0.1:1/{INTERFACE}?timeout=5", "1000"),
        (f"override://10.0.0.2:20880/{INTERFACE}?timeout=5", "1000"),
        # Without a port a rule for a host is meant for consumers there.
        (f"override://10.0.0.1/{INTERFACE}?timeout=5", "1000"),
        (f"override://0.0.0.0/{INTERFACE}?timeout=5&enabled=false", "1000"),
        (f"override://0.0.0.0/{INTERFACE}?timeout=5&application=shop", "5"),
        (f"override://0.0.0.0/{INTERFACE}?timeout=5&application=other", "1000"),
        (f"override://0.0.0.0/{INTERFACE}?timeout=5&side=consumer", "1000"),
        (f"override://0.0.0.0/{INTERFACE}?timeout=5&~timeout=1000", "5"),
        (f"override://0.0.0.0/{INTERFACE}?timeout=5&~timeout=999", "1000"),
        (f"override://0.0.0.0/{INTERFACE}?timeout=5&group=g", "1000"),
        (f"override://0.0.0.0/{INTERFACE}?timeout=5&group=*", "5"),
        ("override://0.0.0.0/dev.Other?timeout=5", "1000"),
        (f"override://0.0.0.0/{INTERFACE}?timeout=5&providerAddresses=10.0.0.1:20880", "5"),
        (f"override://0.0.0.0/{INTERFACE}?timeout=5&providerAddresses=10.0.0.7:20880", "1000"),
        (f"absent://0.0.0.0/{INTERFACE}?timeout=5", "1000"),
    ],
)
def test_a_rule_holds_for_whom_it_is_meant(rule: str, timeout: str) -> None:
    assert timeout_after(rule) == timeout


def test_absent_rules_fill_what_is_missing() -> None:
    rule = URL.parse(f"absent://0.0.0.0/{INTERFACE}?retries=3")
    assert apply_rules(PROVIDER, [rule]).get("retries") == "3"


def test_higher_priority_wins() -> None:
    low = f"override://0.0.0.0/{INTERFACE}?timeout=1&priority=1"
    high = f"override://0.0.0.0/{INTERFACE}?timeout=2&priority=2"
    assert timeout_after(low, high) == timeout_after(high, low) == "2"


def test_names_that_are_no_rules_are_left_out() -> None:
    names = [encode("override://0.0.0.0/x?a=b"), "rubbish", encode("dubbo://h:1/x")]
    assert [rule.protocol for rule in parse_rules(names)] == ["override"]
