"""Kafka's names, types and bounds."""

import random

import pytest

import floodmark.client
from floodmark.client.cluster.backoff import Backoff
from floodmark.client.cluster.cluster import parse_servers
from floodmark.client.settings import (
    ClientSettings,
    ConsumerSettings,
    ProducerSettings,
    SettingsError,
    UnsupportedSetting,
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


@pytest.mark.parametrize("name", ["fetch.max.bytes", "session.timeout.ms", "request.timeout.ms"])
def test_a_number_that_no_request_can_hold_is_refused(name: str) -> None:
    with pytest.raises(SettingsError, match=f"{name}=3000000000 is invalid: use 2147483647 or"):
        ConsumerSettings.from_properties({name: "3000000000"})


def test_kafkas_longs_may_exceed_32_bits() -> None:
    settings, _ = ProducerSettings.from_properties(
        {"max.block.ms": "9223372036854775807", "buffer.memory": "3000000000"}
    )
    assert (settings.max_block_ms, settings.buffer_memory) == (2**63 - 1, 3_000_000_000)
    with pytest.raises(SettingsError, match=r"max\.block\.ms"):
        ProducerSettings(max_block_ms=2**63)


@pytest.mark.parametrize(
    ("given", "meant"),
    [("all", -1), ("-1", -1), ("0", 0), ("1", 1), (-1, -1), (0, 0), (1, 1)],
)
def test_acks_are_taken_as_names_and_as_numbers(given: int | str, meant: int) -> None:
    assert ProducerSettings(acks=given).acks == meant
    assert ProducerSettings.from_properties({"acks": str(given)})[0].required_acks == meant
    assert ProducerSettings(acks=given) == ProducerSettings(acks=meant)


@pytest.mark.parametrize("given", ["ALL!", "", 2, -2, "2", None, True, 1.0, b"all"])
def test_other_acks_are_refused_with_what_is_allowed(given: object) -> None:
    with pytest.raises(SettingsError, match="use one of all, -1, 0, 1"):
        ProducerSettings(acks=given)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", [ClientSettings, ConsumerSettings, ProducerSettings])
@pytest.mark.parametrize(
    ("properties", "words"),
    [
        ({"security.protocol": "sasl_plaintext"}, "sasl.mechanism=GSSAPI is not supported"),
        ({"sasl.mechanism": "PLAIN"}, "sasl.mechanism is set without security.protocol"),
        ({"sasl.mechanisms": "PLAIN"}, "in the clear"),
        ({"ssl.ca.location": "ca.pem"}, "or to PLAINTEXT if that is intended"),
        (
            {"security.protocol": "SSL", "enable.ssl.certificate.verification": "false"},
            "gives no protection",
        ),
        ({"security.protocol": "SSL", "ssl.engine.factory.class": "org.example.X"}, "Java classes"),
        ({"security.protocol": "SSL", "ssl.crl.location": "crl.pem"}, "may be a security setting"),
        ({"group.protocol": "consumer"}, "only the classic group protocol"),
        ({"partitioner.class": "org.example.Mine"}, "Java classes"),
    ],
)
def test_a_setting_that_cannot_be_honoured_is_refused_and_never_ignored(
    kind: type[ClientSettings], properties: dict[str, str], words: str
) -> None:
    with pytest.raises(UnsupportedSetting, match=words) as caught:
        kind.from_properties(properties)
    error = caught.value
    assert error.what in str(error)
    assert error.why in str(error)
    assert error.hint in str(error)


def test_a_password_is_not_repeated_in_the_refusal() -> None:
    with pytest.raises(UnsupportedSetting) as caught:
        ClientSettings.from_properties({"sasl.jaas.config": "password=geheim"})
    assert "geheim" not in str(caught.value)


def test_plaintext_is_accepted_and_makes_the_rest_of_security_harmless() -> None:
    properties = {"security.protocol": "plaintext", "ssl.truststore.type": "PEM"}
    settings, unknown = ClientSettings.from_properties(properties)
    assert (settings.security_protocol, unknown) == ("PLAINTEXT", [])
    empty, _ = ClientSettings.from_properties({"ssl.truststore.location": ""})
    assert empty.security_protocol == "PLAINTEXT"
    assert ClientSettings.from_properties({"group.protocol": "CLASSIC"})[0] == ClientSettings()


@pytest.mark.parametrize("servers", ["SSL://a:9093", "a:1,SASL_SSL://b:2"])
def test_a_server_that_asks_for_encryption_is_refused(servers: str) -> None:
    with pytest.raises(UnsupportedSetting, match=r"conflicts with security\.protocol=PLAINTEXT"):
        parse_servers(servers)


def test_a_server_may_name_the_protocol_that_is_set() -> None:
    assert parse_servers("SSL://a:9093", "SSL") == [("a", 9093)]


@pytest.mark.parametrize(
    ("properties", "words"),
    [
        ({"security.protocol": "TLS"}, "use one of PLAINTEXT, SSL"),
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"}, "a user name and password"),
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}, "needs a token"),
        (
            {
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": "PLAIN",
                "sasl.jaas.config": 'Module required password="geheim"',
            },
            "semicolon",
        ),
    ],
)
def test_security_that_is_not_complete_is_refused(properties: dict[str, str], words: str) -> None:
    with pytest.raises(SettingsError, match=words) as caught:
        ClientSettings.from_properties(properties)
    assert "geheim" not in str(caught.value)


def test_names_and_passwords_come_from_java_lines_or_librdkafkas_settings() -> None:
    java = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required "
        'username="a" password="geheim" tokenauth="true";',
    }
    librdkafka = {
        "security.protocol": "sasl_ssl",
        "sasl.mechanisms": "SCRAM-SHA-256",
        "sasl.username": "a",
        "sasl.password": "geheim",
        "enable.ssl.certificate.verification": "true",
    }
    for properties, is_token in ((java, True), (librdkafka, False)):
        settings, unknown = ConsumerSettings.from_properties(properties)
        login = settings.login
        assert (login.name, login.password, login.is_token) == ("a", "geheim", is_token)
        assert unknown == [] and "geheim" not in f"{settings!r} {login!r}"


def test_idempotence_needs_acks_from_all() -> None:
    assert ProducerSettings().idempotent
    assert not ProducerSettings(acks=1).idempotent
    assert not ProducerSettings(enable_idempotence=False).idempotent


@pytest.mark.parametrize(
    ("kind", "name", "lowest"),
    [
        (ClientSettings, "request.timeout.ms", 0),
        (ClientSettings, "metadata.max.age.ms", 0),
        (ProducerSettings, "retries", 0),
        (ProducerSettings, "max.block.ms", 0),
        (ProducerSettings, "batch.size", 0),
        (ConsumerSettings, "max.poll.records", 1),
        (ConsumerSettings, "max.poll.interval.ms", 1),
        (ConsumerSettings, "fetch.max.bytes", 0),
    ],
)
def test_numbers_below_kafkas_bounds_are_refused(
    kind: type[ClientSettings], name: str, lowest: int
) -> None:
    kind.from_properties({name: str(lowest)})
    with pytest.raises(SettingsError, match=f"{name}={lowest - 1} is invalid: use {lowest} or"):
        kind.from_properties({name: str(lowest - 1)})


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
        ("PLAINTEXT://a:1", [("a", 1)]),
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
