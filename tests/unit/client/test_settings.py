"""Kafka's names, types and bounds."""

import random

import pytest

import floodmark.client
from floodmark.client.backoff import Backoff
from floodmark.client.cluster import parse_servers
from floodmark.client.settings import (
    ClientSettings,
    ConsumerSettings,
    ProducerSettings,
    SettingsError,
)


def test_properties_with_dots_become_fields_and_the_rest_is_reported() -> None:
    settings, unknown = ProducerSettings.from_properties(
        {"acks": "all", "linger.ms": "7.5", "enable.idempotence": "false", "foo.bar": "1"}
    )
    assert (settings.acks, settings.linger_ms, settings.enable_idempotence) == (-1, 7.5, False)
    assert unknown == ["foo.bar"]


@pytest.mark.parametrize(
    ("name", "value"), [("batch.size", "many"), ("acks", "2"), ("compression.type", "rar")]
)
def test_a_bad_value_is_named(name: str, value: str) -> None:
    with pytest.raises(SettingsError, match=name):
        ProducerSettings.from_properties({name: value})


def test_idempotence_needs_acks_from_all() -> None:
    assert ProducerSettings().idempotent
    assert not ProducerSettings(acks=1).idempotent
    assert not ProducerSettings(enable_idempotence=False).idempotent


def test_unknown_isolation_levels_are_refused() -> None:
    with pytest.raises(SettingsError, match="read_committed"):
        ConsumerSettings(isolation_level="serializable")


def test_backoff_doubles_up_to_its_limit_with_jitter() -> None:
    backoff = Backoff(100, 1000, generator=random.Random(3))
    for failures, middle in ((1, 100), (2, 200), (3, 400), (4, 800), (5, 1000), (500, 1000)):
        assert 0.8 * middle <= backoff.delay_ms(failures) <= 1.2 * middle


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a:1,b:2", [("a", 1), ("b", 2)]),
        ("a", [("a", 9092)]),
        ("[::1]:7", [("::1", 7)]),
        ("[::1]", [("::1", 9092)]),
    ],
)
def test_bootstrap_servers_are_hosts_with_ports(text: str, expected: list[tuple[str, int]]) -> None:
    assert parse_servers(text) == expected


@pytest.mark.parametrize("text", ["", " , ", "a:b", "a:0", "a:70000"])
def test_nonsense_is_no_bootstrap_server(text: str) -> None:
    with pytest.raises(ValueError, match="server"):
        parse_servers(text)


def test_the_defaults_are_usable() -> None:
    assert ClientSettings.from_properties({}) == (ClientSettings(), [])


def test_every_public_name_of_the_client_can_be_loaded() -> None:
    for name in floodmark.client.__all__:
        assert getattr(floodmark.client, name).__name__ == name
    with pytest.raises(AttributeError, match="no attribute 'Nonsense'"):
        _ = floodmark.client.Nonsense
