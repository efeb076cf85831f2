"""Settings of consumer groups (KIP-848), from a client's request to what the coordinator does."""

from collections.abc import Mapping

from floodmark.client.admin.admin import Admin
from floodmark.client.admin.admin_types import ConfigChange, ConfigResource
from floodmark.client.cluster.cluster import CoordinatorType
from floodmark.client.cluster.connection import Connection
from floodmark.client.cluster.coordinator_requests import ask_coordinator
from floodmark.client.errors import raise_for_code
from floodmark.testing.broker_thread import BrokerThread
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from floodmark.wire.numbers import ConfigOperation, ConfigSource, ResourceType

GROUP = ConfigResource.group("orders/eu")
HEARTBEAT = "consumer.heartbeat.interval.ms"


async def alter(admin: Admin, changes: Mapping[str, str | None]) -> ErrorCode:
    steps = [
        ConfigChange(name, value, ConfigOperation.DELETE if value is None else ConfigOperation.SET)
        for name, value in changes.items()
    ]
    (outcome,) = await admin.incremental_alter_configs({GROUP: steps})
    return ErrorCode.NONE if outcome.error is None else outcome.error.code


async def described(admin: Admin) -> tuple[str | None, ConfigSource]:
    (config,) = await admin.describe_configs([GROUP])
    assert config.error is None
    return config.entries[HEARTBEAT].value, config.entries[HEARTBEAT].source


async def interval_ms(admin: Admin, topic: str, member_id: str) -> int:
    """What a new member is told."""
    request = ConsumerGroupHeartbeatRequest(
        group_id=GROUP.name,
        member_id=member_id,
        member_epoch=0,
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=[topic],
        topic_partitions=[],
    )

    async def ask(connection: Connection) -> int:
        response = await connection.request(request)
        raise_for_code(response.error_code)
        return int(response.heartbeat_interval_ms)

    return await ask_coordinator(admin.cluster, CoordinatorType.GROUP, GROUP.name, ask)


async def test_a_groups_setting_counts_at_once_and_can_be_taken_back(
    floodmark: BrokerThread, floodmark_topic: str
) -> None:
    async with Admin(floodmark.bootstrap_servers) as admin:
        assert await described(admin) == ("5000", ConfigSource.DEFAULT_CONFIG)
        assert await interval_ms(admin, floodmark_topic, "a") == 5_000
        assert await alter(admin, {HEARTBEAT: "7000"}) is ErrorCode.NONE
        assert await described(admin) == ("7000", ConfigSource.DYNAMIC_GROUP_CONFIG)
        assert await interval_ms(admin, floodmark_topic, "b") == 7_000
        listed = await admin.list_config_resources([ResourceType.GROUP])
        assert listed == [(ResourceType.GROUP, GROUP.name)]
        assert await alter(admin, {HEARTBEAT: None}) is ErrorCode.NONE
        assert await interval_ms(admin, floodmark_topic, "c") == 5_000


async def test_a_groups_setting_that_cannot_be_is_refused(floodmark: BrokerThread) -> None:
    async with Admin(floodmark.bootstrap_servers) as admin:
        assert await alter(admin, {HEARTBEAT: "1"}) is ErrorCode.INVALID_CONFIG
        assert await alter(admin, {"retention.ms": "1"}) is ErrorCode.INVALID_CONFIG
        assert await described(admin) == ("5000", ConfigSource.DEFAULT_CONFIG)
