"""Quotas are in the settings of users, client ids and addresses, under Kafka 3.9's nodes."""

from __future__ import annotations

import pytest

from floodmark.metadata import paths, quota_nodes
from floodmark.metadata.image import ConfigResource
from floodmark.security.quota_entities import DEFAULT, QuotaEntity


@pytest.mark.parametrize(
    ("entity", "path", "key"),
    [
        (QuotaEntity("alice"), "/config/users/alice", "producer_byte_rate"),
        (QuotaEntity(DEFAULT), "/config/users/<default>", "producer_byte_rate"),
        (
            QuotaEntity("CN=a b,O=c/d", "app~1"),
            "/config/users/CN%3Da%20b%2CO%3Dc%2Fd/clients/app%7E1",
            "request_percentage",
        ),
        (
            QuotaEntity("alice", DEFAULT),
            "/config/users/alice/clients/<default>",
            "consumer_byte_rate",
        ),
        (QuotaEntity(client_id="app"), "/config/clients/app", "controller_mutation_rate"),
        (QuotaEntity(client_id=".."), "/config/clients/%2E%2E", "producer_byte_rate"),
        (QuotaEntity(ip="10.0.0.1"), "/config/ips/10.0.0.1", "connection_creation_rate"),
        (QuotaEntity(ip=DEFAULT), "/config/ips/<default>", "connection_creation_rate"),
    ],
)
def test_where_quotas_are(entity: QuotaEntity, path: str, key: str) -> None:
    resource = quota_nodes.resource_of(entity)
    assert paths.config_path(resource) == path
    found = paths.config_resource(path)
    assert found == resource
    assert quota_nodes.quotas_in({found: {key: "1024"}}) == {entity: {key: 1024.0}}


def test_credentials_and_folders_are_no_quotas() -> None:
    configs = {
        ConfigResource("user", "alice"): {"SCRAM-SHA-256": "salt=x"},
        ConfigResource("user", "alice/clients"): {},
        ConfigResource("topic", "orders"): {"producer_byte_rate": "1"},
    }
    assert quota_nodes.quotas_in(configs) == {}


def test_a_value_that_is_no_number_is_ignored() -> None:
    alice = ConfigResource("user", "alice")
    for text in ("", "many", "NaN"):
        configs = {alice: {"producer_byte_rate": text, "consumer_byte_rate": "1.0E3"}}
        expected = {QuotaEntity("alice"): {"consumer_byte_rate": 1000.0}}
        assert quota_nodes.quotas_in(configs) == expected


def test_what_must_exist_before_the_quota_of_a_users_client() -> None:
    resource = quota_nodes.resource_of(QuotaEntity("alice", "app"))
    above = [paths.config_path(folder) for folder in quota_nodes.folders_above(resource)]
    assert above == ["/config/users/alice", "/config/users/alice/clients"]
    assert quota_nodes.folders_above(ConfigResource("client", "a/clients/b")) == []
