"""A change of metadata that cannot be stored is told as an error, on a connection that stays."""

from collections.abc import Iterator
from typing import Any

import pytest

from floodmark.metadata.store import StoreUnavailable
from floodmark.testing.broker_thread import BrokerThread
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages import (
    alter_configs,
    alter_partition_reassignments,
    create_partitions,
    create_topics,
    delete_topics,
    elect_leaders,
    incremental_alter_configs,
    init_producer_id,
    metadata,
    update_features,
)
from fuzz_kit.raw_client import RawClient

STORAGE_ERROR = ErrorCode.KAFKA_STORAGE_ERROR
TOPIC = 2
TOPICS_AND_PARTITIONS = [elect_leaders.TopicPartitions(topic="t", partitions=[0])]


@pytest.fixture
def client(floodmark: BrokerThread, monkeypatch: pytest.MonkeyPatch) -> Iterator[RawClient]:
    """Of a broker with the topic t, whose metadata file can neither be written nor read."""

    async def fail(*_: Any) -> Any:
        raise StoreUnavailable("/", "the test broke the disk")

    floodmark.create_topic("t")
    with RawClient(floodmark.bootstrap_servers) as client, monkeypatch.context() as patched:
        for method in ("multi", "get", "children", "read_tree"):
            patched.setattr(floodmark.broker.controller._store, method, fail)
        # After the first failure even a change that stores nothing has to read the metadata.
        client.ask(create_topics.CreateTopicsRequest(topics=[new_topic("first")]), 7)
        yield client


def new_topic(name: str) -> create_topics.CreatableTopic:
    return create_topics.CreatableTopic(name=name, num_partitions=1, replication_factor=1)


def test_topics_and_partitions(client: RawClient) -> None:
    created = client.ask(create_topics.CreateTopicsRequest(topics=[new_topic("new")]), 7)
    assert [(t.name, t.error_code) for t in created.topics] == [("new", STORAGE_ERROR)]
    assert "the test broke the disk" in created.topics[0].error_message

    wanted = delete_topics.DeleteTopicState(name="t")
    deleted = client.ask(delete_topics.DeleteTopicsRequest(topics=[wanted]), 6)
    assert [(t.name, t.error_code) for t in deleted.responses] == [("t", STORAGE_ERROR)]

    more = create_partitions.CreatePartitionsTopic(name="t", count=2, assignments=None)
    grown = client.ask(create_partitions.CreatePartitionsRequest(topics=[more]), 3)
    assert [(t.name, t.error_code) for t in grown.results] == [("t", STORAGE_ERROR)]


def test_configs_of_which_some_are_refused_for_another_reason(client: RawClient) -> None:
    replaced = client.ask(
        alter_configs.AlterConfigsRequest(
            resources=[
                alter_configs.AlterConfigsResource(resource_type=TOPIC, resource_name="t"),
                alter_configs.AlterConfigsResource(resource_type=99, resource_name="?"),
            ]
        ),
        2,
    )
    assert {(r.resource_name, r.error_code) for r in replaced.responses} == {
        ("t", STORAGE_ERROR),
        ("?", ErrorCode.INVALID_REQUEST),
    }
    altered = client.ask(
        incremental_alter_configs.IncrementalAlterConfigsRequest(
            resources=[
                incremental_alter_configs.AlterConfigsResource(
                    resource_type=TOPIC, resource_name="t"
                )
            ]
        ),
        1,
    )
    assert [(r.resource_name, r.error_code) for r in altered.responses] == [("t", STORAGE_ERROR)]


@pytest.mark.parametrize("version", [0, 1, 2])
@pytest.mark.parametrize("wanted", [TOPICS_AND_PARTITIONS, None])
def test_elections(client: RawClient, version: int, wanted: Any) -> None:
    elected = client.ask(elect_leaders.ElectLeadersRequest(topic_partitions=wanted), version)
    assert elected.error_code == (ErrorCode.NONE if version == 0 else STORAGE_ERROR)
    assert [
        (t.topic, p.partition_id, p.error_code)
        for t in elected.replica_election_results
        for p in t.partition_result
    ] == ([("t", 0, STORAGE_ERROR)] if wanted else [])


@pytest.mark.parametrize("version", [0, 1, 2])
def test_features(client: RawClient, version: int) -> None:
    key = update_features.FeatureUpdateKey(feature="transaction.version", max_version_level=2)
    updated = client.ask(update_features.UpdateFeaturesRequest(feature_updates=[key]), version)
    assert updated.error_code == STORAGE_ERROR


def test_reassignments(client: RawClient) -> None:
    moved = client.ask(alter_partition_reassignments.AlterPartitionReassignmentsRequest(), 1)
    assert (moved.error_code, moved.responses) == (STORAGE_ERROR, [])


def test_a_topic_that_metadata_should_create_beside_one_that_is_there(client: RawClient) -> None:
    topics = [metadata.MetadataRequestTopic(name=name) for name in ("new", "t")]
    answer = client.ask(metadata.MetadataRequest(topics=topics), 12)
    assert [(t.name, t.error_code) for t in answer.topics] == [
        ("new", STORAGE_ERROR),
        ("t", ErrorCode.NONE),
    ]


def test_producers_without_an_id_are_told_to_come_back(client: RawClient) -> None:
    request = init_producer_id.InitProducerIdRequest(transactional_id=None)
    for _ in range(2):
        assert client.ask(request, 4).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
