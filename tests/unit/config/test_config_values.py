"""Typed values, bounds and layers of broker and topic settings."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from floodmark.config import (
    BROKER_SETTINGS_BY_NAME,
    TOPIC_SETTINGS_BY_NAME,
    BrokerConfig,
    ConfigError,
    describe_broker,
    describe_cluster_default,
    describe_group,
    describe_topic,
    topic_config,
    validate_dynamic_overrides,
    validate_group_overrides,
    validate_thread_counts,
    validate_topic_overrides,
)
from floodmark.config.values import ValueType, format_value, parse_value
from floodmark.wire.numbers import ConfigSource


def entry(entries, name):
    return next(item for item in entries if item.name == name)


def test_every_default_passes_its_own_validator():
    for setting in (*BROKER_SETTINGS_BY_NAME.values(), *TOPIC_SETTINGS_BY_NAME.values()):
        if setting.default is not None:
            assert setting.parse(format_value(setting.default) or "") == setting.default


def test_every_topic_synonym_is_a_broker_setting_with_the_same_default():
    defaults = BrokerConfig.load({}).topic_defaults
    for setting in TOPIC_SETTINGS_BY_NAME.values():
        assert all(synonym.name in BROKER_SETTINGS_BY_NAME for synonym in setting.synonyms)
        assert defaults[setting.name] == setting.default


def test_every_setting_is_documented_in_a_sentence():
    for setting in (*BROKER_SETTINGS_BY_NAME.values(), *TOPIC_SETTINGS_BY_NAME.values()):
        assert setting.documentation.endswith(".")
        assert "<code>" not in setting.documentation


def test_defaults_that_differ_from_kafka_on_purpose():
    config = BrokerConfig.load({})
    assert config.get_int("replica.lag.time.max.ms") == 10_000
    assert config.log_dirs == ("floodmark-data",)
    assert [(ln.name, ln.host, ln.port) for ln in config.listeners] == [
        ("PLAINTEXT", "127.0.0.1", 9092)
    ]


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_doubles_survive_their_text(number):
    text = format_value(number)
    assert text is not None
    assert parse_value("x", ValueType.DOUBLE, text) == number


def test_the_largest_double_is_written_as_java_writes_it():
    assert format_value(1.7976931348623157e308) == "1.7976931348623157E308"


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("num.io.threads", "0", "Value must be at least 1"),
        ("num.io.threads", "many", "Not a number of type INT"),
        ("num.io.threads", "3000000000", "Not a number of type INT"),
        ("auto.create.topics.enable", "yes", "Expected value to be either true or false"),
        ("compression.type", "brotli", "String must be one of: uncompressed, zstd, lz4"),
        ("log.cleaner.min.cleanable.ratio", "1.5", "Value must be no more than 1"),
        ("compression.gzip.level", "10", "between 1 and 9"),
        ("log.cleaner.min.cleanable.ratio", "0_0.5", "Not a number of type DOUBLE"),
        ("max.connections.per.ip.overrides", "a:2147483648", "is not of the form host:limit"),
        ("max.connections.per.ip.overrides", "a:" + "9" * 5000, "is not of the form host:limit"),
    ],
)
def test_a_bad_value_is_refused_with_its_name_and_the_reason(name, text, why):
    with pytest.raises(ConfigError, match=name) as caught:
        BrokerConfig.load({name: text})
    assert why in str(caught.value)


def test_what_a_list_says_twice_counts_once_as_in_kafka():
    config = BrokerConfig.load({"log.cleanup.policy": "delete,compact,delete"})
    assert config.get("log.cleanup.policy") == ("delete", "compact")
    validate_topic_overrides({"cleanup.policy": "compact,compact"})
    assert topic_config(config, {"cleanup.policy": "compact,compact"}).get_list(
        "cleanup.policy"
    ) == ("compact",)


def test_settings_of_tiered_storage_are_known_and_only_it_itself_is_refused():
    validate_topic_overrides(
        {
            "remote.storage.enable": "false",
            "remote.log.copy.disable": "true",
            "remote.log.delete.on.disable": "true",
            "local.retention.ms": "-2",
            "local.retention.bytes": "1000",
        }
    )
    with pytest.raises(ConfigError, match="Tiered Storage functionality is disabled"):
        validate_topic_overrides({"remote.storage.enable": "true"})


def test_a_stored_dynamic_value_of_a_setting_that_is_fixed_is_ignored():
    config = BrokerConfig.load({}).with_dynamic({}, {"listeners": "PLAINTEXT://1.2.3.4:99"})
    assert [listener.host for listener in config.listeners] == ["127.0.0.1"]
    assert config.ignored_dynamic == ("listeners",)


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("num.io.threads", "17", "should not be greater than double the current value 8"),
        ("num.io.threads", "3", "should be at least half the current value 8"),
        ("background.threads", "4", "should be at least half the current value 10"),
        ("log.cleaner.threads", "3", "should not be greater than double the current value 1"),
    ],
)
def test_thread_counts_are_halved_or_doubled_at_most_by_one_change(name, value, why):
    config = BrokerConfig.load({})
    with pytest.raises(ConfigError, match=why):
        validate_thread_counts(config, config.with_dynamic({name: value}, {}))
    validate_thread_counts(config, config.with_dynamic({"num.io.threads": "16"}, {}))
    validate_thread_counts(config, config.with_dynamic({"num.io.threads": "4"}, {}))


def test_unknown_names_are_listed_and_do_not_stop_the_broker():
    config = BrokerConfig.load({"metadata.log.dir": "there", "num.io.threads": "4"})
    assert config.unknown_names == ("metadata.log.dir",)
    assert config.get_int("num.io.threads") == 4


def test_settings_of_one_listener_are_known_and_preferred():
    config = BrokerConfig.load(
        {"listener.name.plaintext.max.connections": "5", "max.connections": "9"}
    )
    assert config.unknown_names == ()
    assert config.for_listener("PLAINTEXT", "max.connections") == 5
    assert config.for_listener("OTHER", "max.connections") == 9


def test_broker_id_and_node_id_are_one_number():
    assert BrokerConfig.load({"broker.id": "7"}).node_id == 7
    assert BrokerConfig.load({"node.id": "3"}).node_id == 3
    assert not BrokerConfig.load({}).node_id_is_set
    with pytest.raises(ConfigError):
        BrokerConfig.load({"broker.id": "7", "node.id": "3"})


def test_dynamic_values_win_over_static_ones_and_the_broker_over_the_default():
    config = BrokerConfig.load({"num.io.threads": "2", "log.retention.hours": "1"})
    config = config.with_dynamic({"num.io.threads": "3", "log.retention.ms": "5000"}, {})
    assert config.get_int("num.io.threads") == 3
    assert config.topic_defaults["retention.ms"] == 5000
    config = config.with_dynamic({"num.io.threads": "3"}, {"num.io.threads": "4"})
    assert config.get_int("num.io.threads") == 4
    assert config.topic_defaults["retention.ms"] == 3_600_000


def test_a_stored_dynamic_value_that_cannot_be_read_is_ignored():
    config = BrokerConfig.load({}).with_dynamic({"num.io.threads": "x", "gone": "1"}, {})
    assert config.get_int("num.io.threads") == 8
    assert set(config.ignored_dynamic) == {"num.io.threads", "gone"}


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        ({"log.retention.hours": "2"}, 7_200_000),
        ({"log.retention.hours": "2", "log.retention.minutes": "5"}, 300_000),
        ({"log.retention.minutes": "5", "log.retention.ms": "77"}, 77),
        ({"log.retention.hours": "-1"}, -1),
    ],
)
def test_retention_takes_the_finest_unit_that_is_set(properties, expected):
    assert BrokerConfig.load(properties).topic_defaults["retention.ms"] == expected


def test_topic_overrides_win_and_are_typed():
    config = topic_config(
        BrokerConfig.load({}), {"retention.ms": "1", "cleanup.policy": "compact,delete"}
    )
    assert config.get_int("retention.ms") == 1
    assert config.get_list("cleanup.policy") == ("compact", "delete")
    assert config.get_int("segment.bytes") == 1 << 30


def test_topic_overrides_are_validated_in_kafkas_words():
    with pytest.raises(ConfigError, match="Unknown topic config name: nope"):
        validate_topic_overrides({"nope": "1"})
    with pytest.raises(
        ConfigError,
        match=r"Invalid value -2 for configuration retention\.ms: Value must be at least",
    ):
        validate_topic_overrides({"retention.ms": "-2"})
    with pytest.raises(ConfigError, match="conflict topic config setting"):
        validate_topic_overrides({"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "5"})
    validate_topic_overrides({"leader.replication.throttled.replicas": "0:1,1:2"})
    with pytest.raises(ConfigError, match="must be the literal"):
        validate_topic_overrides({"leader.replication.throttled.replicas": "a:b"})


def test_dynamic_overrides_are_checked_for_where_they_may_be_set():
    validate_dynamic_overrides({"num.io.threads": "4"}, per_broker=False)
    with pytest.raises(ConfigError, match="Cannot update these configs dynamically"):
        validate_dynamic_overrides({"log.dirs": "x"}, per_broker=True)
    with pytest.raises(ConfigError, match="broker id must be specified"):
        validate_dynamic_overrides(
            {"listener.name.plaintext.ssl.keystore.location": "f"}, per_broker=False
        )
    with pytest.raises(ConfigError, match="only per-listener"):
        validate_dynamic_overrides({"ssl.keystore.location": "f"}, per_broker=True)


def test_topic_description_names_the_source_of_each_value():
    broker = BrokerConfig.load({"log.segment.bytes": "2000000"})
    entries = describe_topic(broker, {"retention.ms": "1"})
    retention = entry(entries, "retention.ms")
    assert (retention.value, retention.source) == ("1", ConfigSource.DYNAMIC_TOPIC_CONFIG)
    segment = entry(entries, "segment.bytes")
    assert segment.source is ConfigSource.STATIC_BROKER_CONFIG
    assert [(s.name, s.value, s.source) for s in segment.synonyms] == [
        ("log.segment.bytes", "2000000", ConfigSource.STATIC_BROKER_CONFIG),
        ("log.segment.bytes", "1073741824", ConfigSource.DEFAULT_CONFIG),
    ]


def test_a_topic_setting_in_another_unit_shows_no_synonyms_as_in_kafka():
    retention = entry(describe_topic(BrokerConfig.load({}), {}), "retention.ms")
    assert retention.value == "604800000"
    assert retention.synonyms == ()
    assert retention.source is ConfigSource.DEFAULT_CONFIG


def test_synonyms_keep_kafkas_order_over_units_and_layers():
    broker = BrokerConfig.load({"log.retention.minutes": "5"}).with_dynamic(
        {"log.retention.ms": "9"}, {}
    )
    retention = entry(describe_topic(broker, {"retention.ms": "1"}), "retention.ms")
    assert [(s.name, s.value, int(s.source)) for s in retention.synonyms] == [
        ("retention.ms", "1", 1),
        ("log.retention.ms", "9", 3),
        ("log.retention.minutes", "5", 4),
        ("log.retention.hours", "168", 5),
    ]


def test_broker_description_hides_secrets_and_marks_what_is_fixed():
    broker = BrokerConfig.load({"ssl.key.password": "hush", "who.knows": "secret"})
    entries = describe_broker(broker)
    password = entry(entries, "ssl.key.password")
    assert password.is_sensitive
    assert password.value is None
    assert all(synonym.value is None for synonym in password.synonyms)
    assert entry(entries, "who.knows").value is None
    assert entry(entries, "log.dirs").read_only
    assert not entry(entries, "num.io.threads").read_only


def test_cluster_default_description_lists_only_what_was_set():
    broker = BrokerConfig.load({"num.io.threads": "2"}).with_dynamic({"num.io.threads": "3"}, {})
    (only,) = describe_cluster_default(broker)
    assert (only.name, only.value) == ("num.io.threads", "3")
    assert [s.source for s in only.synonyms] == [ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG]


def test_group_description_names_the_source_of_each_value():
    broker = BrokerConfig.load({"group.consumer.heartbeat.interval.ms": "6000"})
    entries = describe_group(broker, {"consumer.session.timeout.ms": "50000"})
    session = entry(entries, "consumer.session.timeout.ms")
    assert (session.value, session.source) == ("50000", ConfigSource.DYNAMIC_GROUP_CONFIG)
    assert [(s.name, s.value, s.source) for s in session.synonyms] == [
        ("consumer.session.timeout.ms", "50000", ConfigSource.DYNAMIC_GROUP_CONFIG),
        ("group.consumer.session.timeout.ms", "45000", ConfigSource.DEFAULT_CONFIG),
    ]
    heartbeat = entry(entries, "consumer.heartbeat.interval.ms")
    assert (heartbeat.value, heartbeat.source) == ("6000", ConfigSource.STATIC_BROKER_CONFIG)


def test_a_groups_session_must_be_longer_than_its_heartbeat_interval():
    bounds = {
        "group.consumer.min.session.timeout.ms": "1000",
        "group.consumer.session.timeout.ms": "20000",
    }
    broker = BrokerConfig.load(bounds)
    validate_group_overrides({"consumer.session.timeout.ms": "5001"}, broker)
    with pytest.raises(ConfigError, match=r"must be greater than consumer\.heartbeat"):
        validate_group_overrides({"consumer.session.timeout.ms": "5000"}, broker)


@pytest.mark.parametrize(
    "servers", ["zk", "zk1:2181", "zk1:2181, zk2:2181/kafka/a:b", "[::1]:2181", "/kafka", ""]
)
def test_zookeeper_servers_may_lack_a_port_or_have_a_path(servers):
    BrokerConfig.load({"zookeeper.connect": servers})


@pytest.mark.parametrize("servers", ["zk:abc", "zk1:2181,zk2:", "zk 1:2181", "http://zk:2181"])
def test_zookeeper_servers_that_no_client_could_read_are_refused(servers):
    with pytest.raises(ConfigError, match="not of the form host:port") as caught:
        BrokerConfig.load({"zookeeper.connect": servers})
    assert caught.value.hint == "For example zk1:2181,zk2:2181/kafka"
