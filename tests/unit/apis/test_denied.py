"""A client that may do nothing: every API asks, refuses as Kafka's does, and answers no data."""

from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest

from floodmark.apis.access import NOTHING
from floodmark.apis.authorizer import Operation, ResourceKind
from floodmark.apis.dispatch import SERVED, SERVED_TO_BROKERS
from floodmark.network.principal import ANONYMOUS
from floodmark.testing.broker_thread import BrokerThread
from floodmark.wire.api_keys import ApiKey
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages.list_groups import ListGroupsRequest
from floodmark.wire.messages.list_transactions import ListTransactionsRequest
from floodmark.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from floodmark.wire.schema import ZERO_UUID, schema_of
from fuzz_kit.raw_client import RawClient, request_bytes
from kit import every_api
from kit.authorizers import Permits, plug_in
from kit.plain_requests import begin_transactions, commit, produce

SECRET = every_api.NAME

ASK_NOTHING = {
    ApiKey.API_VERSIONS,
    ApiKey.SASL_HANDSHAKE,
    ApiKey.SASL_AUTHENTICATE,
    # Owner and renewers may, whatever ACLs say.
    ApiKey.RENEW_DELEGATION_TOKEN,
    ApiKey.EXPIRE_DELEGATION_TOKEN,
}

ASK_THEMSELVES = {
    # Only for other owners, and after a look at the connection: test_delegation_tokens.py.
    ApiKey.CREATE_DELEGATION_TOKEN,
    ApiKey.DESCRIBE_DELEGATION_TOKEN,
}

HIDE = {
    ApiKey.FETCH,
    ApiKey.METADATA,
    ApiKey.DESCRIBE_CLUSTER,
    ApiKey.LIST_GROUPS,
    ApiKey.LIST_TRANSACTIONS,
}
"""Handled for every client, but their answers omit what the client may not see."""

TOPIC = ErrorCode.TOPIC_AUTHORIZATION_FAILED
GROUP = ErrorCode.GROUP_AUTHORIZATION_FAILED
CLUSTER = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
TRANSACTION = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED

REFUSALS = {
    ApiKey.PRODUCE: TOPIC,
    ApiKey.LIST_OFFSETS: TOPIC,
    ApiKey.OFFSET_COMMIT: GROUP,
    ApiKey.OFFSET_FETCH: GROUP,
    ApiKey.FIND_COORDINATOR: GROUP,
    ApiKey.JOIN_GROUP: GROUP,
    ApiKey.HEARTBEAT: GROUP,
    ApiKey.LEAVE_GROUP: GROUP,
    ApiKey.SYNC_GROUP: GROUP,
    ApiKey.DESCRIBE_GROUPS: GROUP,
    ApiKey.CREATE_TOPICS: TOPIC,
    ApiKey.DELETE_TOPICS: TOPIC,
    ApiKey.DELETE_RECORDS: TOPIC,
    ApiKey.INIT_PRODUCER_ID: TRANSACTION,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: TOPIC,
    ApiKey.ADD_OFFSETS_TO_TXN: TRANSACTION,
    ApiKey.END_TXN: TRANSACTION,
    ApiKey.WRITE_TXN_MARKERS: CLUSTER,
    ApiKey.TXN_OFFSET_COMMIT: TRANSACTION,
    ApiKey.DESCRIBE_ACLS: CLUSTER,
    ApiKey.CREATE_ACLS: CLUSTER,
    ApiKey.DELETE_ACLS: CLUSTER,
    ApiKey.DESCRIBE_CONFIGS: TOPIC,
    ApiKey.ALTER_CONFIGS: TOPIC,
    ApiKey.ALTER_REPLICA_LOG_DIRS: CLUSTER,
    ApiKey.CREATE_PARTITIONS: TOPIC,
    ApiKey.DELETE_GROUPS: GROUP,
    ApiKey.ELECT_LEADERS: CLUSTER,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: TOPIC,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: CLUSTER,
    ApiKey.LIST_PARTITION_REASSIGNMENTS: CLUSTER,
    ApiKey.OFFSET_DELETE: GROUP,
    ApiKey.DESCRIBE_CLIENT_QUOTAS: CLUSTER,
    ApiKey.ALTER_CLIENT_QUOTAS: CLUSTER,
    ApiKey.UPDATE_FEATURES: CLUSTER,
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: CLUSTER,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: CLUSTER,
    ApiKey.DESCRIBE_PRODUCERS: TOPIC,
    ApiKey.DESCRIBE_TRANSACTIONS: TRANSACTION,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: GROUP,
    ApiKey.CONSUMER_GROUP_DESCRIBE: GROUP,
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: TOPIC,
    ApiKey.LIST_CONFIG_RESOURCES: CLUSTER,
}


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerThread]:
    with BrokerThread() as broker:
        broker.create_topic(SECRET)
        produce(broker, SECRET, 3)
        broker.call(commit(broker, SECRET, SECRET, 1))
        with RawClient(broker.bootstrap_servers) as client:
            begin_transactions(client, SECRET)
            assert len(client.ask(ListGroupsRequest(), 5).groups) == 1
            assert len(client.ask(ListTransactionsRequest(), 2).transaction_states) == 1
        yield broker


@pytest.fixture(autouse=True)
def fresh_routes(broker: BrokerThread) -> None:
    """Routes keep the handler that they have found first."""
    broker.broker.dispatch._routes.clear()


def refuse_to_handle(*_: Any) -> Any:
    raise AssertionError("handled")


def request_of(broker: BrokerThread, api_key: ApiKey, version: int) -> Any:
    return every_api.request_of(
        api_key, version, broker.broker.services.image.topics[SECRET].topic_id
    )


def codes_in(message: Any, found: list[int]) -> list[int]:
    for field in schema_of(type(message)).fields:
        value = getattr(message, field.name)
        if field.name in ("error_code", "partition_error_code"):
            found.append(value)
        elif isinstance(value, list):
            for item in value:
                if hasattr(type(item), "__wire__"):
                    codes_in(item, found)
    return found


def versions_of(api_key: ApiKey) -> range:
    return range(SERVED[api_key].lowest, SERVED[api_key].highest + 1)


def test_every_api_declares_what_it_asks() -> None:
    modules = {key: import_module(f"floodmark.apis.handlers.{key.name.lower()}") for key in SERVED}
    assert {key for key, module in modules.items() if module.ACCESS is NOTHING} == ASK_NOTHING
    for key in set(modules) - ASK_NOTHING:
        assert modules[key].ACCESS.describe(), key


@pytest.mark.parametrize(
    "api_key", sorted(set(SERVED) - ASK_NOTHING - ASK_THEMSELVES), ids=lambda key: key.name
)
def test_an_authorizer_that_denies_is_asked_and_nothing_is_handled(
    broker: BrokerThread, api_key: ApiKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    if api_key not in HIDE:
        module = import_module(f"floodmark.apis.handlers.{api_key.name.lower()}")
        monkeypatch.setattr(module, "handle", refuse_to_handle)
    with RawClient(broker.bootstrap_servers) as client:
        for version in versions_of(api_key):
            denies = Permits()
            plug_in(broker, denies)
            answer = client.ask(request_of(broker, api_key, version), version)
            assert denies.asked, version
            assert {principal for principal, _ in denies.principals} <= {ANONYMOUS}
            if api_key in REFUSALS:
                codes = {code for code in codes_in(answer, []) if code}
                is_mute = api_key is ApiKey.DESCRIBE_LOG_DIRS and version < 3
                assert codes == ({REFUSALS[api_key]} if not is_mute else set()), version


def test_the_log_folders_are_refused_where_old_answers_have_no_room_for_an_error(
    broker: BrokerThread,
) -> None:
    plug_in(broker, Permits())
    with RawClient(broker.bootstrap_servers) as client:
        for version in versions_of(ApiKey.DESCRIBE_LOG_DIRS):
            request = request_of(broker, ApiKey.DESCRIBE_LOG_DIRS, version)
            answer = client.ask(request, version)
            assert answer.results == []
            assert answer.error_code == (CLUSTER if version >= 3 else 0)


def test_partitions_are_added_by_clients_with_a_transactional_id_and_else_by_brokers(
    broker: BrokerThread,
) -> None:
    plug_in(broker, Permits())
    with RawClient(broker.bootstrap_servers) as client:
        for version in versions_of(ApiKey.ADD_PARTITIONS_TO_TXN):
            request = request_of(broker, ApiKey.ADD_PARTITIONS_TO_TXN, version)
            codes = {code for code in codes_in(client.ask(request, version), []) if code}
            assert codes == {CLUSTER if version >= 4 else TRANSACTION}


def test_a_fetch_gets_no_records(broker: BrokerThread) -> None:
    plug_in(broker, Permits())
    with RawClient(broker.bootstrap_servers) as client:
        for version in versions_of(ApiKey.FETCH):
            answer = client.ask(request_of(broker, ApiKey.FETCH, version), version)
            ((partition,),) = [topic.partitions for topic in answer.responses]
            assert (partition.error_code, partition.high_watermark) == (TOPIC, -1)
            assert not partition.records


def test_metadata_names_brokers_and_no_topics(broker: BrokerThread) -> None:
    plug_in(broker, Permits())
    with RawClient(broker.bootstrap_servers) as client:
        for version in versions_of(ApiKey.METADATA):
            request = request_of(broker, ApiKey.METADATA, version)
            answer = client.ask(request, version)
            assert len(answer.brokers) == 1
            (topic,) = answer.topics
            by_id = version >= 12
            assert (topic.error_code, topic.partitions) == (TOPIC, [])
            assert topic.name == (None if by_id else SECRET)
            assert (topic.topic_id != ZERO_UUID) == by_id
            if 8 <= version <= 10:
                assert answer.cluster_authorized_operations == 0
            request.topics = None if version else []
            assert client.ask(request, version).topics == []


@pytest.mark.parametrize("version", [10, 11])
def test_metadata_by_id_hides_the_name_where_old_answers_have_no_room_for_null(
    broker: BrokerThread, version: int
) -> None:
    plug_in(broker, Permits())
    topic_id = broker.broker.metadata.image.topics[SECRET].topic_id
    with RawClient(broker.bootstrap_servers) as client:
        for name in (SECRET, ""):
            asked = MetadataRequestTopic(topic_id=topic_id, name=name)
            (topic,) = client.ask(MetadataRequest(topics=[asked]), version).topics
            assert (topic.error_code, topic.name, topic.topic_id) == (TOPIC, "", topic_id)


def test_lists_are_empty(broker: BrokerThread) -> None:
    plug_in(broker, Permits())
    with RawClient(broker.bootstrap_servers) as client:
        groups = client.ask(request_of(broker, ApiKey.LIST_GROUPS, 5), 5)
        assert (groups.error_code, groups.groups) == (0, [])
        transactions = client.ask(request_of(broker, ApiKey.LIST_TRANSACTIONS, 2), 2)
        assert (transactions.error_code, transactions.transaction_states) == (0, [])
        cluster = client.ask(request_of(broker, ApiKey.DESCRIBE_CLUSTER, 2), 2)
        assert cluster.cluster_authorized_operations == 0
        request = request_of(broker, ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0)
        request.topics, request.cursor = [], None
        assert client.ask(request, 0).topics == []


def test_a_denied_produce_that_wants_no_answer_ends_its_connection(broker: BrokerThread) -> None:
    plug_in(broker, Permits())
    request = request_of(broker, ApiKey.PRODUCE, 9)
    request.acks = 0
    with RawClient(broker.bootstrap_servers) as client:
        client.send_frame(request_bytes(request, 9))
        assert client.is_closed()


@pytest.fixture(scope="module")
def member(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerThread]:
    """The only broker of a cluster: it serves what brokers ask each other."""
    folder = tmp_path_factory.mktemp("member")
    settings = {"node.id": "1", "floodmark.cluster.dir": str(folder / "cluster")}
    with BrokerThread(folder / "data", settings) as member:
        member.create_topic(SECRET)
        yield member


@pytest.mark.parametrize("api_key", SERVED_TO_BROKERS, ids=lambda key: key.name)
def test_an_authorizer_that_denies_is_asked_for_what_brokers_ask_each_other(
    member: BrokerThread, api_key: ApiKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = import_module(f"floodmark.apis.handlers.{api_key.name.lower()}")
    monkeypatch.setattr(module, "handle", refuse_to_handle)
    member.broker.dispatch._routes.clear()
    served = SERVED_TO_BROKERS[api_key]
    with RawClient(member.bootstrap_servers) as client:
        for version in range(served.lowest, served.highest + 1):
            denies = Permits()
            plug_in(member, denies)
            answer = client.ask(request_of(member, api_key, version), version)
            kinds = {(operation, kind) for operation, kind, _ in denies.asked}
            assert kinds == {(Operation.CLUSTER_ACTION, ResourceKind.CLUSTER)}, version
            assert {code for code in codes_in(answer, []) if code} == {CLUSTER}, version


def test_every_api_that_refuses_is_listed_with_its_refusal() -> None:
    """So that none is asked above without a look at its answer."""
    elsewhere = {ApiKey.ADD_PARTITIONS_TO_TXN, ApiKey.DESCRIBE_LOG_DIRS}
    listed = set(REFUSALS) | HIDE | ASK_NOTHING | ASK_THEMSELVES | elsewhere
    assert listed == set(SERVED)
