"""The client on uvloop, as in brokers that talk to each other."""

import asyncio

import uvloop

from floodmark.client.cluster.connection import Connection
from floodmark.testing import Broker


def test_a_connection_works_on_uvloop(floodmark: Broker) -> None:
    async def versions() -> int:
        host, _, port = floodmark.bootstrap_servers.rpartition(":")
        connection = await Connection.open(host, int(port))
        try:
            return len(connection.versions)
        finally:
            await connection.close()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert runner.run(versions()) > 40
