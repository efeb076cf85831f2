"""What a broker answers that has no other brokers, no authorizer and nobody who logs in."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from floodmark.testing.broker_thread import BrokerThread
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from floodmark.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from floodmark.wire.messages.create_acls import AclCreation, CreateAclsRequest
from floodmark.wire.messages.create_delegation_token import CreateDelegationTokenRequest
from floodmark.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from floodmark.wire.messages.describe_delegation_token import DescribeDelegationTokenRequest
from floodmark.wire.messages.expire_delegation_token import ExpireDelegationTokenRequest
from floodmark.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from floodmark.wire.messages.renew_delegation_token import RenewDelegationTokenRequest
from floodmark.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from floodmark.wire.messages.sasl_handshake import SaslHandshakeRequest
from fuzz_kit.raw_client import RawClient

NOWHERE = "no such folder"


@pytest.fixture
def client(floodmark: BrokerThread) -> Iterator[RawClient]:
    floodmark.create_topic("t", partitions=2)
    with RawClient(floodmark.bootstrap_servers) as client:
        yield client


def reassign(
    client: RawClient, version: int, topic: str, partition: int, replicas: list[int] | None
) -> tuple[int, str | None]:
    request = AlterPartitionReassignmentsRequest(
        topics=[
            ReassignableTopic(
                name=topic,
                partitions=[ReassignablePartition(partition_index=partition, replicas=replicas)],
            )
        ]
    )
    response = client.ask(request, version)
    assert response.error_code == ErrorCode.NONE
    [answered] = response.responses
    [result] = answered.partitions
    assert (answered.name, result.partition_index) == (topic, partition)
    return result.error_code, result.error_message


@pytest.mark.parametrize("version", [0, 1])
def test_a_partition_is_reassigned_only_to_where_it_is(client: RawClient, version: int) -> None:
    assert reassign(client, version, "t", 1, [1]) == (ErrorCode.NONE, None)
    code, message = reassign(client, version, "t", 1, [7])
    assert code == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert "broker 7" in (message or "")
    assert reassign(client, version, "t", 1, [1, 1])[0] == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert reassign(client, version, "t", 1, [])[0] == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert reassign(client, version, "t", 1, None)[0] == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
    assert reassign(client, version, "t", 9, [1])[0] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert reassign(client, version, "absent", 0, [1])[0] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_no_partition_is_on_the_move(client: RawClient) -> None:
    asked = ListPartitionReassignmentsTopics(name="t", partition_indexes=[0, 5])
    absent = ListPartitionReassignmentsTopics(name="absent", partition_indexes=[0])
    for topics in (None, [], [asked, absent]):
        response = client.ask(ListPartitionReassignmentsRequest(topics=topics), 0)
        assert (response.error_code, response.topics) == (ErrorCode.NONE, [])


@pytest.mark.parametrize("version", [1, 2])
def test_a_partition_stays_in_its_folder(
    client: RawClient, floodmark: BrokerThread, version: int
) -> None:
    [folder] = floodmark.broker.logs.dirs

    def move(topic: str, partition: int, path: Path | str) -> int:
        wanted = AlterReplicaLogDir(
            path=str(path), topics=[AlterReplicaLogDirTopic(name=topic, partitions=[partition])]
        )
        [result] = client.ask(AlterReplicaLogDirsRequest(dirs=[wanted]), version).results
        assert result.topic_name == topic
        return int(result.partitions[0].error_code)

    assert move("t", 0, folder.absolute()) == ErrorCode.NONE
    assert move("t", 0, NOWHERE) == ErrorCode.LOG_DIR_NOT_FOUND
    assert move("t", 9, folder.absolute()) == ErrorCode.REPLICA_NOT_AVAILABLE


@pytest.mark.parametrize("version", [1, 2, 3])
def test_there_is_no_authorizer(client: RawClient, version: int) -> None:
    creation = AclCreation(
        resource_type=2,
        resource_name="t",
        principal="User:a",
        host="*",
        operation=3,
        permission_type=3,
    )
    created = client.ask(CreateAclsRequest(creations=[creation, creation]), version)
    assert [r.error_code for r in created.results] == [ErrorCode.SECURITY_DISABLED] * 2
    wanted = DeleteAclsFilter(resource_type_filter=1, operation=1, permission_type=1)
    deleted = client.ask(DeleteAclsRequest(filters=[wanted]), version)
    assert [r.error_code for r in deleted.filter_results] == [ErrorCode.SECURITY_DISABLED]


def test_there_are_no_tokens_without_authentication(client: RawClient) -> None:
    for request, versions in (
        (CreateDelegationTokenRequest(max_lifetime_ms=-1), (1, 2, 3)),
        (RenewDelegationTokenRequest(hmac=b"h", renew_period_ms=1), (1, 2)),
        (ExpireDelegationTokenRequest(hmac=b"h", expiry_time_period_ms=-1), (1, 2)),
        (DescribeDelegationTokenRequest(owners=None), (1, 2, 3)),
    ):
        for version in versions:
            response = client.ask(request, version)
            assert response.error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED


def test_who_wants_to_log_in_is_told_that_nobody_has_to(client: RawClient) -> None:
    for version in (0, 1):
        answer = client.ask(SaslHandshakeRequest(mechanism="PLAIN"), version)
        assert answer.error_code == ErrorCode.ILLEGAL_SASL_STATE
    for version in (0, 1, 2):
        answer = client.ask(SaslAuthenticateRequest(auth_bytes=b"\0a\0b"), version)
        assert answer.error_code == ErrorCode.ILLEGAL_SASL_STATE
