"""An answer that is made of something that comes later."""

import asyncio

import pytest

from floodmark.apis.later import later


async def test_a_conversion_that_fails_is_heard_of_by_who_waits() -> None:
    outcome: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    response = later(outcome, lambda value: 1 // value)
    assert isinstance(response, asyncio.Future)
    outcome.set_result(0)
    with pytest.raises(ZeroDivisionError):
        await asyncio.wait_for(response, 10)
