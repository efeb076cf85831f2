"""Files, environment, pairs and listeners."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from floodmark.clock import SystemClock
from floodmark.config import (
    BrokerConfig,
    ConfigError,
    merge_sources,
    parse_environment,
    parse_pairs,
    parse_properties,
    parse_toml,
)
from floodmark.testing.virtual_clock import VirtualClock


def test_properties_follow_javas_syntax():
    text = (
        "# comment\n! another\n\n"
        "a=1\nb: 2\nc 3\n  d = spaced \n"
        "e=one,\\\n   two\nf\\=g=h\\tq\nunicode=\\u00e9\nempty=\nlast"
    )
    assert parse_properties(text) == {
        "a": "1",
        "b": "2",
        "c": "3",
        "d": "spaced ",
        "e": "one,two",
        "f=g": "h\tq",
        "unicode": "é",
        "empty": "",
        "last": "",
    }


def test_an_even_number_of_backslashes_ends_the_line():
    assert parse_properties("a=x\\\\\nb=y") == {"a": "x\\", "b": "y"}


@given(st.text(max_size=200))
def test_no_text_breaks_the_properties_reader(text):
    try:
        parse_properties(text)
    except ConfigError as error:
        assert "hexadecimal" in str(error)


def test_toml_tables_are_joined_by_dots():
    text = '[log]\ndirs = ["a", "b"]\nretention.ms = 5\n[auto.create]\ntopics.enable = false\n'
    assert parse_toml(text) == {
        "log.dirs": "a,b",
        "log.retention.ms": "5",
        "auto.create.topics.enable": "false",
    }
    with pytest.raises(ConfigError, match="not valid TOML"):
        parse_toml("= nothing")


def test_environment_variables_become_dotted_names():
    assert parse_environment(
        {
            "FLOODMARK_LOG_RETENTION_MS": "5",
            "FLOODMARK_PRODUCE_FULL_CHECK": "true",
            "FLOODMARK_LISTENER_NAME_A__B_MAX_CONNECTIONS": "3",
            "HOME": "/",
        }
    ) == {
        "log.retention.ms": "5",
        "floodmark.produce.full.check": "true",
        "listener.name.a_b.max.connections": "3",
    }


def test_pairs_win_over_environment_and_environment_over_the_file():
    merged = merge_sources(
        file={"a": "file", "b": "file", "c": "file"},
        environment={"b": "env", "c": "env"},
        pairs=parse_pairs(["c=set"]),
    )
    assert merged == {"a": "file", "b": "env", "c": "set"}
    with pytest.raises(ConfigError, match="key=value"):
        parse_pairs(["nonsense"])


def test_several_listeners_with_their_protocols():
    config = BrokerConfig.load(
        {
            "listeners": "INTERNAL://:9093,EXTERNAL://[::1]:9094",
            "advertised.listeners": "INTERNAL://inner:9093,EXTERNAL://outer:443",
            "listener.security.protocol.map": "INTERNAL:PLAINTEXT,EXTERNAL:SSL",
            "inter.broker.listener.name": "internal",
        }
    )
    assert [(ln.name, ln.security_protocol, ln.host, ln.port) for ln in config.listeners] == [
        ("INTERNAL", "PLAINTEXT", "", 9093),
        ("EXTERNAL", "SSL", "::1", 9094),
    ]
    assert config.listeners[1].is_loopback
    assert [ln.host for ln in config.advertised_listeners] == ["inner", "outer"]
    assert config.inter_broker_listener_name == "INTERNAL"


@pytest.mark.parametrize(
    ("properties", "why"),
    [
        ({"listeners": "here"}, "NAME://host:port"),
        ({"listeners": "PLAINTEXT://h:99999"}, "NAME://host:port"),
        ({"listeners": "MINE://h:1"}, "No security protocol defined for listener MINE"),
        ({"listeners": "PLAINTEXT://:1,PLAINTEXT://:2"}, "different name"),
        ({"listeners": "PLAINTEXT://:1,SSL://:1"}, "different port"),
        ({"advertised.listeners": "SSL://h:1"}, "not in listeners"),
        ({"advertised.listeners": "PLAINTEXT://0.0.0.0:1"}, "nonroutable"),
        ({"inter.broker.listener.name": "SSL"}, "is not one of the advertised"),
        ({"listener.security.protocol.map": "A:TLS"}, "Invalid security protocol"),
    ],
)
def test_listeners_that_do_not_agree_are_refused(properties, why):
    with pytest.raises(ConfigError, match=why):
        BrokerConfig.load(properties)


def test_explanation_says_what_to_do_next():
    with pytest.raises(ConfigError) as caught:
        BrokerConfig.load({"listeners": "MINE://h:1"})
    assert "Add MINE:PLAINTEXT" in (caught.value.hint or "")


def test_virtual_clock_moves_only_when_told():
    clock = VirtualClock(1000)
    clock.advance(5)
    assert (clock.now_ms(), clock.monotonic_ms()) == (1005, 5.0)
    clock.set_wall(10)
    assert (clock.now_ms(), clock.monotonic_ms()) == (10, 5.0)
    with pytest.raises(ValueError, match="go back"):
        clock.advance(-1)


def test_system_clock_tells_milliseconds():
    clock = SystemClock()
    assert clock.now_ms() > 1_700_000_000_000
    assert clock.monotonic_ms() <= clock.monotonic_ms()
