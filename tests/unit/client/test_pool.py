"""The pool's housekeeping while others use it."""

import asyncio

from floodmark.client.cluster.connection import Address, ConnectionOptions
from floodmark.client.cluster.pool import ConnectionPool

KEY = (Address("127.0.0.1", 1), "")


class Dead:
    """A connection that has ended and takes a moment to close."""

    is_open = False
    in_flight = 0
    last_used = 0.0

    async def close(self) -> None:
        await asyncio.sleep(0)


async def test_two_tasks_may_drop_the_same_dead_connection():
    pool = ConnectionPool(ConnectionOptions(), max_idle_ms=1000)
    pool._open[KEY] = Dead()
    await asyncio.gather(pool._drop_idle(), pool._drop_idle())
    assert not pool._open


async def test_a_connection_that_came_meanwhile_stays():
    pool = ConnectionPool(ConnectionOptions(), max_idle_ms=1000)
    pool._open[KEY] = Dead()
    dropping = asyncio.create_task(pool._drop_idle())
    await asyncio.sleep(0)
    newcomer = Dead()
    newcomer.is_open = True
    newcomer.last_used = float("inf")
    pool._open[KEY] = newcomer
    await dropping
    assert pool._open[KEY] is newcomer
