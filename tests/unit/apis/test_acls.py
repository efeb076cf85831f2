"""A broker with an authorizer: ACLs are created, found, deleted, kept, and decide at once."""

import logging
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from floodmark.apis.acl_authorizer import LONGEST_NAME, AclAuthorizer
from floodmark.apis.authorizer import MOST_AUDITED
from floodmark.security.resources import Operation, ResourceKind
from floodmark.testing.broker_thread import BrokerThread
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages.create_acls import AclCreation, CreateAclsRequest
from floodmark.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from floodmark.wire.messages.describe_acls import DescribeAclsRequest
from floodmark.wire.messages.find_coordinator import FindCoordinatorRequest
from floodmark.wire.messages.metadata import MetadataRequest
from fuzz_kit.raw_client import RawClient
from kit.acls import ANONYMOUS, LOCKED, acl, give, take_all
from kit.plain_requests import produce_request

VERSION = 3
ANY, MATCH, LITERAL, PREFIXED, ALLOW = 1, 2, 3, 4, 3
DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
WRITE = acl(Operation.WRITE, ResourceKind.TOPIC, "t")
ADMIN = acl(Operation.ALTER, ResourceKind.CLUSTER)


@pytest.fixture
def floodmark_settings() -> Mapping[str, str]:
    return LOCKED


@pytest.fixture
def client(floodmark: BrokerThread) -> Iterator[RawClient]:
    floodmark.create_topic("t")
    with RawClient(floodmark.bootstrap_servers) as client:
        yield client


def creation(name: str = "orders", **others: int | str) -> AclCreation:
    fields: dict[str, Any] = {
        "resource_type": ResourceKind.TOPIC,
        "resource_name": name,
        "principal": "User:alice",
        "host": "*",
        "operation": Operation.READ,
        "permission_type": ALLOW,
        **others,
    }
    return AclCreation(**fields)


def described(client: RawClient, **wanted: int | str) -> list[tuple[str, int, str, int]]:
    fields: dict[str, Any] = {
        "resource_type_filter": ANY,
        "resource_name_filter": None,
        "pattern_type_filter": ANY,
        "principal_filter": None,
        "host_filter": None,
        "operation": ANY,
        "permission_type": ANY,
        **wanted,
    }
    answer = client.ask(DescribeAclsRequest(**fields), VERSION)
    assert answer.error_code == ErrorCode.NONE
    return [
        (resource.resource_name, resource.pattern_type, rule.principal, rule.operation)
        for resource in answer.resources
        for rule in resource.acls
    ]


def produce(client: RawClient) -> int:
    answer = client.ask(produce_request("t"), 12)
    error_code: int = answer.responses[0].partition_responses[0].error_code
    return error_code


def test_nobody_may_do_anything_until_an_acl_allows_it(
    floodmark: BrokerThread, client: RawClient
) -> None:
    assert produce(client) == DENIED
    give(floodmark, [WRITE])
    assert [produce(client) for _ in range(3)] == [0, 0, 0]


def test_a_deleted_acl_ends_a_right_during_a_connection(
    floodmark: BrokerThread, client: RawClient
) -> None:
    give(floodmark, [WRITE])
    assert [produce(client) for _ in range(3)] == [0, 0, 0]
    take_all(floodmark)
    assert produce(client) == DENIED


def test_a_denial_ends_a_right_during_a_connection(
    floodmark: BrokerThread, client: RawClient
) -> None:
    give(floodmark, [WRITE])
    assert [produce(client) for _ in range(3)] == [0, 0, 0]
    give(floodmark, [acl(Operation.ALL, ResourceKind.TOPIC, "t", prefixed=True, deny=True)])
    assert produce(client) == DENIED


def test_acls_are_created_found_and_deleted(floodmark: BrokerThread, client: RawClient) -> None:
    give(floodmark, [ADMIN])
    create = CreateAclsRequest(
        creations=[
            creation("orders"),
            creation("ord", resource_pattern_type=PREFIXED),
            creation("*"),
            creation("orders", operation=99),
            creation("orders", principal="alice"),
            creation(""),
        ]
    )
    codes = [result.error_code for result in client.ask(create, VERSION).results]
    assert codes == [0, 0, 0, *([ErrorCode.INVALID_REQUEST] * 3)]
    topics = {"resource_type_filter": ResourceKind.TOPIC}
    matching = described(client, resource_name_filter="orders", pattern_type_filter=MATCH, **topics)
    assert sorted(matching) == [
        ("*", LITERAL, "User:alice", Operation.READ),
        ("ord", PREFIXED, "User:alice", Operation.READ),
        ("orders", LITERAL, "User:alice", Operation.READ),
    ]
    everything = DeleteAclsFilter(
        resource_type_filter=ResourceKind.TOPIC,
        resource_name_filter=None,
        pattern_type_filter=PREFIXED,
        principal_filter=None,
        host_filter=None,
        operation=ANY,
        permission_type=ANY,
    )
    deleted = client.ask(DeleteAclsRequest(filters=[everything]), VERSION).filter_results
    assert [acl.resource_name for acl in deleted[0].matching_acls] == ["ord"]
    assert {name for name, *_ in described(client, **topics)} == {"orders", "*"}


def test_an_acl_that_exists_is_created_again_without_effect(
    floodmark: BrokerThread, client: RawClient
) -> None:
    give(floodmark, [ADMIN])
    generation = floodmark.broker.services.generation.number
    for _ in range(2):
        assert (
            client.ask(CreateAclsRequest(creations=[creation()] * 2), 3).results[0].error_code == 0
        )
    assert floodmark.broker.services.generation.number == generation + 1
    assert len(described(client, resource_type_filter=ResourceKind.TOPIC)) == 1


def test_the_acl_apis_ask_for_rights(client: RawClient) -> None:
    refused = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    created = client.ask(CreateAclsRequest(creations=[creation()]), VERSION)
    assert [result.error_code for result in created.results] == [refused]
    filters = [DeleteAclsFilter(resource_type_filter=ANY, operation=ANY, permission_type=ANY)]
    deleted = client.ask(DeleteAclsRequest(filters=filters), VERSION)
    assert [result.error_code for result in deleted.filter_results] == [refused]
    wanted = DescribeAclsRequest(resource_type_filter=ANY, operation=ANY, permission_type=ANY)
    assert client.ask(wanted, VERSION).error_code == refused


def test_acls_are_there_after_a_restart(floodmark: BrokerThread, client: RawClient) -> None:
    give(floodmark, [WRITE, acl(Operation.READ, ResourceKind.GROUP, "a/b", prefixed=True)])
    before = floodmark.broker.metadata.image.acls
    floodmark.stop()
    floodmark.start()
    assert floodmark.broker.metadata.image.acls == before
    with RawClient(floodmark.bootstrap_servers) as again:
        assert produce(again) == 0


def test_decisions_about_long_names_are_not_kept(
    floodmark: BrokerThread, client: RawClient
) -> None:
    """A client may ask about as many as it likes, of 32 KB each."""
    names = ["short", "x" * 32_000]
    request = FindCoordinatorRequest(key_type=0, coordinator_keys=names)
    for _ in range(2):
        told = client.ask(request, 4).coordinators
        assert [c.error_code for c in told] == [ErrorCode.GROUP_AUTHORIZATION_FAILED] * 2
    authorizer = floodmark.broker.services.authorizer
    assert isinstance(authorizer, AclAuthorizer)
    kept = {resource.name for *_, resource in authorizer._verdicts}
    assert "short" in kept and max(map(len, kept)) <= LONGEST_NAME


def test_the_audit_log_lists_the_first_denials_of_a_request_and_that_there_are_more(
    client: RawClient, caplog: pytest.LogCaptureFixture
) -> None:
    """A line costs the loop some 40 us, and a request may name 20,000 groups."""
    caplog.set_level(logging.INFO, "kafka.authorizer.logger")
    names = ["x" * 32_000, *(f"group-{number}" for number in range(2 * MOST_AUDITED))]
    request = FindCoordinatorRequest(key_type=0, coordinator_keys=names)
    told = client.ask(request, 4).coordinators
    assert {c.error_code for c in told} == {ErrorCode.GROUP_AUTHORIZATION_FAILED}
    assert len(caplog.messages) == MOST_AUDITED + 1
    assert "further denials" in caplog.messages[-1]
    assert max(map(len, caplog.messages)) < 1000


def test_the_audit_log_tells_denials_and_at_debug_what_is_allowed(
    floodmark: BrokerThread, client: RawClient, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "kafka.authorizer.logger")
    assert produce(client) == DENIED
    assert caplog.messages == [
        f"Principal = {ANONYMOUS} is Denied operation = WRITE from host = 127.0.0.1 on resource = "
        "Topic:LITERAL:t for request = Produce based on rule DefaultDeny"
    ]
    caplog.clear()
    # A list of all topics asks for nothing in particular.
    assert client.ask(MetadataRequest(topics=None), 12).topics == []
    give(floodmark, [WRITE])
    assert produce(client) == 0
    assert caplog.messages == []
    give(floodmark, [acl(Operation.READ, ResourceKind.TOPIC, "other")])
    caplog.set_level(logging.DEBUG, "kafka.authorizer.logger")
    assert produce(client) == 0
    assert "is Allowed operation = WRITE" in caplog.text
