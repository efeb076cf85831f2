"""The server.properties of Apache Kafka 4 starts one broker with its client listener only."""

import pytest

from floodmark.config.broker_config import BrokerConfig
from floodmark.config.errors import ConfigError
from floodmark.config.loaders import parse_properties
from floodmark.config.not_served import kraft_settings

STOCK = """
process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=localhost:9093
listeners=PLAINTEXT://:9092,CONTROLLER://:9093
inter.broker.listener.name=PLAINTEXT
advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,\
SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL
num.network.threads=3
num.io.threads=8
socket.send.buffer.bytes=102400
socket.receive.buffer.bytes=102400
socket.request.max.bytes=104857600
log.dirs=/tmp/kraft-combined-logs
num.partitions=1
num.recovery.threads.per.data.dir=1
offsets.topic.replication.factor=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
log.retention.hours=168
log.segment.bytes=1073741824
log.retention.check.interval.ms=300000
"""


def names(listeners):
    return [listener.name for listener in listeners]


def test_the_stock_file_of_kafka_4_opens_no_port_for_a_controller():
    config = BrokerConfig.load(parse_properties(STOCK))
    assert names(config.listeners) == ["PLAINTEXT"]
    assert names(config.advertised_listeners) == ["PLAINTEXT"]
    assert config.inter_broker_listener_name == "PLAINTEXT"
    assert config.node_id == 1


def test_what_is_left_out_of_it_can_be_named():
    config = BrokerConfig.load(parse_properties(STOCK))
    assert kraft_settings(config) == [
        "controller.listener.names",
        "controller.quorum.bootstrap.servers",
        "process.roles",
        "the listener CONTROLLER://:9093",
    ]
    assert not {*kraft_settings(config)} & {*config.unknown_names}
    assert kraft_settings(BrokerConfig.load({"node.id": "1"})) == []


def test_a_controller_listener_needs_no_security_protocol():
    """As in Kafka, where it is PLAINTEXT without a mapping; here nobody speaks it at all."""
    config = BrokerConfig.load(
        {
            "process.roles": "broker,controller",
            "listeners": "PLAINTEXT://:9092,STEERING://:9093",
            "controller.listener.names": "steering",
        }
    )
    assert names(config.listeners) == ["PLAINTEXT"]


def test_a_file_with_a_controller_listener_alone_gets_the_default_one_for_clients():
    config = BrokerConfig.load(
        {
            "process.roles": "broker,controller",
            "listeners": "CONTROLLER://:9093",
            "controller.listener.names": "CONTROLLER",
        }
    )
    assert [(one.name, one.port) for one in config.listeners] == [("PLAINTEXT", 9092)]


def test_the_file_of_a_controller_without_a_broker_is_refused():
    properties = {
        "process.roles": "controller",
        "listeners": "CONTROLLER://:9093",
        "controller.listener.names": "CONTROLLER",
    }
    with pytest.raises(ConfigError, match="controller without a broker") as caught:
        BrokerConfig.load(properties)
    assert caught.value.hint


def test_an_unknown_role_is_refused():
    with pytest.raises(ConfigError, match="broker, controller"):
        BrokerConfig.load({"process.roles": "broker,observer"})
