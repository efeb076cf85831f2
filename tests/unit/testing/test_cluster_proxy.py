"""What a test cluster's proxy does with connections that come while it shuts."""

import asyncio
import socket
from contextlib import suppress

import pytest

from floodmark.testing.cluster.proxy import Proxy
from kit.process import free_port


@pytest.mark.parametrize("turns", range(4))
async def test_a_connection_that_is_accepted_while_the_proxy_shuts_is_closed(turns: int) -> None:
    proxy = Proxy()
    await proxy.open(free_port())
    with socket.create_connection(("127.0.0.1", proxy.port), timeout=5) as client:
        for _ in range(turns):
            await asyncio.sleep(0)
        await proxy.close()
        with suppress(ConnectionResetError):
            assert await asyncio.to_thread(client.recv, 1) == b""
