"""The nodes' JSON, compared with what Kafka 3.9.1 was seen to write."""

from __future__ import annotations

import json

import pytest

from floodmark.metadata import paths
from floodmark.metadata.image import (
    BrokerInfo,
    ConfigResource,
    Endpoint,
    PartitionImage,
    TopicImage,
)
from floodmark.metadata.quota_nodes import user_of, user_resource

ORDERS = (
    '{"partitions":{"0":[1,2],"1":[2,1]},"topic_id":"8FiB-TlQTziCo0mCDoY8ZQ",'
    '"adding_replicas":{},"removing_replicas":{},"version":3}'
)
BROKER = (
    '{"features":{},"listener_security_protocol_map":{"PLAINTEXT":"PLAINTEXT"},'
    '"endpoints":["PLAINTEXT://127.0.0.1:32092"],"jmx_port":-1,"port":32092,'
    '"host":"127.0.0.1","version":5,"timestamp":"1794769445810"}'
)


def test_topic_node_is_kafkas_byte_for_byte():
    assignment = paths.decode_topic(ORDERS.encode())
    assert assignment.replicas == {0: (1, 2), 1: (2, 1)}
    topic = TopicImage(
        "orders",
        assignment.topic_id,
        (PartitionImage(1, 0, 0, (1, 2), (1, 2)), PartitionImage(2, 0, 0, (2, 1), (2, 1))),
    )
    assert paths.encode_topic(topic).decode() == ORDERS


def test_state_node_is_kafkas_byte_for_byte():
    text = '{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":0,"isr":[1,2]}'
    assert paths.decode_state(text.encode()) == (1, 1, 0, (1, 2))
    assert paths.encode_state(PartitionImage(1, 0, 0, (1, 2), (1, 2)), 1).decode() == text


def test_broker_node_is_kafkas_byte_for_byte():
    broker = paths.decode_broker(1, BROKER.encode(), broker_epoch=25)
    assert broker == BrokerInfo(
        1, 25, {"PLAINTEXT": Endpoint("PLAINTEXT", "127.0.0.1", 32092, "PLAINTEXT")}, is_kafka=True
    )
    assert paths.encode_broker(broker, 1794769445810).decode() == BROKER


def test_broker_node_keeps_rack_features_and_addresses_of_both_kinds():
    broker = BrokerInfo(
        2,
        7,
        {
            "IN": Endpoint("IN", "::1", 1, "PLAINTEXT"),
            "OUT": Endpoint("OUT", "host.example", 2, "SSL"),
        },
        rack="r1",
        supported_features={"group.version": (0, 1)},
    )
    assert paths.decode_broker(2, paths.encode_broker(broker, 5), 7) == broker


@pytest.mark.parametrize(
    ("encoded", "text"),
    [
        (
            paths.encode_cluster_id("94rrZzHQQNqHs6aY0k_apA"),
            '{"version":"1","id":"94rrZzHQQNqHs6aY0k_apA"}',
        ),
        (
            paths.encode_controller(1, 1794769445958),
            '{"version":2,"brokerid":1,"timestamp":"1794769445958","kraftControllerEpoch":-1}',
        ),
        (
            paths.encode_config({"retention.ms": "60000"}),
            '{"version":1,"config":{"retention.ms":"60000"}}',
        ),
        (paths.encode_features({}), '{"features":{},"version":2,"status":1}'),
    ],
)
def test_small_nodes_are_kafkas_byte_for_byte(encoded, text):
    assert encoded.decode() == text


def test_producer_id_blocks_go_on_after_the_last_one():
    assert paths.decode_next_producer_id(b"") == 0
    data = paths.encode_producer_id_block(1, 1000, 1999)
    assert json.loads(data) == {
        "version": 1,
        "broker": 1,
        "block_start": "1000",
        "block_end": "1999",
    }
    assert paths.decode_next_producer_id(data) == 2000


@pytest.mark.parametrize(
    ("resource", "path"),
    [
        (ConfigResource("topic", "orders"), "/config/topics/orders"),
        (ConfigResource("broker", "1"), "/config/brokers/1"),
        (ConfigResource("broker", ""), "/config/brokers/<default>"),
        (ConfigResource("group", "payments"), "/config/groups/payments"),
        (ConfigResource("group", "a/b. c%"), "/config/groups/a%2Fb%2E%20c%25"),
        (ConfigResource("group", "<default>"), "/config/groups/%3Cdefault%3E"),
    ],
)
def test_config_paths_go_both_ways(resource, path):
    assert paths.config_path(resource) == path
    assert paths.config_resource(path) == resource


def test_config_nodes_of_other_kinds_are_passed_over():
    assert paths.config_resource("/config/changes/config_change_0000000000") is None
    assert paths.config_resource("/config/topics") is None


@pytest.mark.parametrize(
    ("name", "node"),
    [
        ("alice", "alice"),
        ("CN=a, O=b", "CN%3Da%2C%20O%3Db"),
        ("a.b~*", "a.b%7E%2A"),
        ("..", "%2E%2E"),
    ],
)
def test_users_have_the_nodes_that_kafka_gives_them(name, node):
    resource = user_resource(name)
    assert paths.config_path(resource) == f"/config/users/{node}"
    assert paths.config_resource(f"/config/users/{node}") == resource
    assert user_of(resource) == name


def test_client_ids_of_users_and_defaults_are_no_users():
    for node in ("alice/clients/app", "alice/clients", "<default>"):
        resource = paths.config_resource(f"/config/users/{node}")
        assert resource is not None and user_of(resource) is None
