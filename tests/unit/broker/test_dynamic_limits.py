"""Limits that change while the broker runs: of connections, and of how long producers are known."""

from collections.abc import Mapping

import pytest

from floodmark.client.admin.admin import Admin
from floodmark.client.admin.admin_types import ConfigChange, ConfigResource
from floodmark.client.cluster.connection import Connection
from floodmark.client.errors import ConnectionFailed
from floodmark.testing.broker_thread import BrokerThread


async def alter(admin: Admin, settings: Mapping[str, str]) -> None:
    changes = [ConfigChange(name, value) for name, value in settings.items()]
    (outcome,) = await admin.incremental_alter_configs({ConfigResource.broker(None): changes})
    assert outcome.error is None


async def connect(floodmark: BrokerThread) -> Connection:
    host, _, port = floodmark.bootstrap_servers.rpartition(":")
    return await Connection.open(host, int(port))


async def test_a_new_limit_per_address_counts_for_the_next_connection(
    floodmark: BrokerThread,
) -> None:
    async with Admin(floodmark.bootstrap_servers) as admin:
        await alter(admin, {"max.connections.per.ip": "1"})
        with pytest.raises(ConnectionFailed):
            await connect(floodmark)
        await alter(admin, {"max.connections.per.ip.overrides": "127.0.0.1:2"})
        second = await connect(floodmark)
        await second.close()


async def test_more_room_lets_in_who_waits_at_the_door(floodmark: BrokerThread) -> None:
    async with Admin(floodmark.bootstrap_servers) as admin:
        await alter(admin, {"max.connections": "1"})
        limits = floodmark.broker.network.limits
        assert limits.is_full("PLAINTEXT")
        await alter(admin, {"max.connections": "2"})
        second = await connect(floodmark)
        await second.close()


async def test_how_long_a_silent_producer_is_known_counts_for_all_logs(
    floodmark: BrokerThread,
) -> None:
    floodmark.create_topic("before")
    async with Admin(floodmark.bootstrap_servers) as admin:
        await alter(admin, {"producer.id.expiration.ms": "1234"})
    floodmark.create_topic("after")
    logs = [floodmark.broker.logs.get(topic, 0) for topic in ("before", "after")]
    assert [log.producers.expiration_ms for log in logs if log is not None] == [1234, 1234]
