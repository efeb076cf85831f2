"""The pool's housekeeping while others use it."""

import asyncio
from typing import cast

from floodmark.client.cluster.connection import Address, Connection, ConnectionOptions
from floodmark.client.cluster.pool import SILENT_S, ConnectionPool

KEY = (Address("127.0.0.1", 1), "")


class Dead:
    """A connection that has ended and takes a moment to close."""

    is_open = False
    in_flight = 0
    last_used = 0.0
    timed_out_at: float | None = None

    async def close(self) -> None:
        await asyncio.sleep(0)


async def test_two_tasks_may_drop_the_same_dead_connection():
    pool = ConnectionPool(ConnectionOptions(), max_idle_ms=1000)
    pool._open[KEY] = cast(Connection, Dead())
    await asyncio.gather(pool._drop_idle(), pool._drop_idle())
    assert not pool._open


async def test_a_connection_that_came_meanwhile_stays():
    pool = ConnectionPool(ConnectionOptions(), max_idle_ms=1000)
    pool._open[KEY] = cast(Connection, Dead())
    dropping = asyncio.create_task(pool._drop_idle())
    await asyncio.sleep(0)
    newcomer = Dead()
    newcomer.is_open = True
    newcomer.last_used = float("inf")
    pool._open[KEY] = cast(Connection, newcomer)
    await dropping
    assert pool._open[KEY] is cast(Connection, newcomer)


async def test_a_negative_limit_keeps_idle_connections():
    pool = ConnectionPool(ConnectionOptions(), max_idle_ms=-1)
    idle = Dead()
    idle.is_open = True
    pool._open[KEY] = cast(Connection, idle)
    await pool._drop_idle()
    assert pool._open[KEY] is cast(Connection, idle)


class Silent(Dead):
    """A connection that ended because its broker did not respond."""

    def __init__(self, timed_out_at: float) -> None:
        self.timed_out_at = timed_out_at


async def test_a_broker_that_did_not_respond_is_remembered_for_a_while() -> None:
    pool = ConnectionPool(ConnectionOptions(), max_idle_ms=1000)
    address, now = KEY[0], asyncio.get_running_loop().time()
    assert not pool.is_silent(address)
    pool._open[KEY] = cast(Connection, Silent(now))
    await pool._drop_idle()
    assert pool.is_silent(address)
    pool._timed_out_at[address] = now - SILENT_S
    assert not pool.is_silent(address)
