"""The matrix: every API for a client with no rights, with each single right and with a denial.

The same requests go to our broker and to Apache Kafka 4.3.0. Both must refuse, hide and tell the
same; errors for other reasons than rights are not compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol
from uuid import UUID

import pytest

from floodmark.apis.authorized_operations import OPERATIONS
from floodmark.apis.dispatch import SERVED
from floodmark.security.acls import AccessRule, Acl
from floodmark.security.resources import (
    CLUSTER_NAME,
    Operation,
    PermissionType,
    ResourceKind,
    ResourcePattern,
)
from floodmark.testing.broker_thread import BrokerThread
from floodmark.wire.api_keys import ApiKey
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from floodmark.wire.messages.delete_topics import DeleteTopicState
from floodmark.wire.messages.find_coordinator import FindCoordinatorRequest
from floodmark.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from floodmark.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from floodmark.wire.schema import schema_of
from fuzz_kit.raw_client import RawClient
from kit.acls import ANONYMOUS, LOCKED, give, take_all
from kit.every_api import NAME, request_of
from kit.locked_kafka import locked_kafka, log_in, set_acls
from kit.plain_requests import begin_transactions
from kit.tools import require_tool
from kit.waiting import wait_for

pytestmark = [pytest.mark.java, pytest.mark.timeout(400)]

FOLLOWERS_SINCE = 15
"""From this version on the fetch of the matrix is one of a follower, before of a consumer."""

REQUESTS = [
    *((key, SERVED[key].highest) for key in SERVED),
    # What only older versions ask or tell.
    (ApiKey.ADD_PARTITIONS_TO_TXN, 3),
    (ApiKey.FIND_COORDINATOR, 3),
    (ApiKey.OFFSET_FETCH, 7),
    (ApiKey.FETCH, 12),
    (ApiKey.PRODUCE, 12),
    (ApiKey.METADATA, 9),
]

DENIALS = frozenset(
    {
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
        # Anonymous clients get no tokens; test_token_matrix.py is about those who do.
        ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED,
        ErrorCode.ILLEGAL_SASL_STATE,
        ErrorCode.SECURITY_DISABLED,
    }
)

RIGHTS = [
    *((kind, operation) for kind in OPERATIONS for operation in OPERATIONS[kind]),
    *(
        (ResourceKind.TRANSACTIONAL_ID, operation)
        for operation in (Operation.WRITE, Operation.DESCRIBE, Operation.TWO_PHASE_COMMIT)
    ),
]
KINDS = [*OPERATIONS, ResourceKind.TRANSACTIONAL_ID]


def _acl(kind: ResourceKind, operation: Operation, permission: PermissionType) -> Acl:
    name = CLUSTER_NAME if kind is ResourceKind.CLUSTER else "*"
    return Acl(ResourcePattern(kind, name), AccessRule(ANONYMOUS, "*", operation, permission))


ALL_RIGHTS = [_acl(kind, Operation.ALL, PermissionType.ALLOW) for kind in KINDS]
SETS: dict[str, list[Acl]] = {
    "no rights": [],
    "all rights": ALL_RIGHTS,
    **{
        f"only {operation.name} on {kind.name}": [_acl(kind, operation, PermissionType.ALLOW)]
        for kind, operation in RIGHTS
    },
    **{
        f"all but {operation.name} on {kind.name}": [
            *ALL_RIGHTS,
            _acl(kind, operation, PermissionType.DENY),
        ]
        for kind, operation in RIGHTS
    },
}


class Side(Protocol):
    client: RawClient
    topic_id: UUID

    def allow(self, acls: Sequence[Acl]) -> None: ...


class Ours:
    def __init__(self, broker: BrokerThread, client: RawClient) -> None:
        self._broker = broker
        self.client = client
        self.allow(ALL_RIGHTS)
        self.topic_id = _fill(client)

    def allow(self, acls: Sequence[Acl]) -> None:
        take_all(self._broker)
        give(self._broker, acls)


class Kafkas:
    def __init__(self, client: RawClient, admin: RawClient) -> None:
        self.client = client
        self._admin = admin
        self.topic_id = _fill(admin)

    def allow(self, acls: Sequence[Acl]) -> None:
        set_acls(self._admin, acls)


def _fill(client: RawClient) -> UUID:
    """A topic, a group with an offset and a transactional id."""
    new = CreatableTopic(name=NAME, num_partitions=1, replication_factor=1)
    client.ask(CreateTopicsRequest(topics=[new], timeout_ms=10_000), 7)
    find = FindCoordinatorRequest(key_type=0, coordinator_keys=[NAME])
    wait_for(lambda: client.ask(find, 4).coordinators[0].error_code == 0)
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=0)
    commit = OffsetCommitRequest(
        group_id=NAME,
        generation_id_or_member_epoch=-1,
        topics=[OffsetCommitRequestTopic(name=NAME, partitions=[partition])],
    )
    wait_for(lambda: client.ask(commit, 9).topics[0].partitions[0].error_code == 0)
    begin_transactions(client, NAME)
    describe = MetadataRequest(topics=[MetadataRequestTopic(name=NAME)])
    topic_id: UUID = client.ask(describe, 12).topics[0].topic_id
    return topic_id


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Side, Side]]:
    require_tool("java", "mvn")
    folder: Path = tmp_path_factory.mktemp("kafka")
    with (
        BrokerThread(settings=LOCKED) as broker,
        RawClient(broker.bootstrap_servers) as ours,
        locked_kafka(folder) as (anonymous, internal),
        RawClient(anonymous) as kafkas,
        RawClient(internal) as admin,
    ):
        log_in(admin)
        yield Ours(broker, ours), Kafkas(kafkas, admin)


def _seen(message: Any) -> Any:
    """What a client may notice of its rights: denials, what is there at all, allowed operations."""
    found: dict[str, Any] = {}
    for field in schema_of(type(message)).fields:
        value = getattr(message, field.name)
        if field.name in ("error_code", "partition_error_code"):
            found[field.name] = ErrorCode(value).name if value in DENIALS else "-"
        elif field.name.endswith("authorized_operations"):
            found[field.name] = value
        elif isinstance(value, list) and value and hasattr(type(value[0]), "__wire__"):
            found[field.name] = sorted({repr(_seen(item)) for item in value})
        elif field.kind == "array":
            found[field.name] = bool(value)
    if found.get("error_code", "-") != "-":
        # Kafka's refusal of ListPartitionReassignments names what was asked for.
        found.pop("topics", None)
    return found


def _answers(side: Side) -> dict[str, Any]:
    answers = {}
    for api_key, version in REQUESTS:
        request = request_of(api_key, version, side.topic_id)
        if api_key is ApiKey.DELETE_TOPICS:
            # By id it would be gone after the first time.
            request.topics = [DeleteTopicState(name="absent")]
            # Kafka looks the name up before it asks for rights, which must not time out.
            request.timeout_ms = 10_000
        if api_key is ApiKey.FETCH and version < FOLLOWERS_SINCE:
            request.replica_id = -1
        answers[f"{api_key.name} v{version}"] = _seen(side.client.ask(request, version))
    return answers


@pytest.mark.parametrize("name", SETS)
def test_rights_mean_the_same_as_with_kafka(sides: tuple[Side, Side], name: str) -> None:
    ours, kafkas = sides
    for side in sides:
        side.allow(SETS[name])
    found, expected = _answers(ours), _answers(kafkas)
    different = [
        f"{api}: {found[api]} instead of {expected[api]}"
        for api in expected
        if found[api] != expected[api]
    ]
    assert not different, "\n".join(different)
