"""An answer that is made of something that comes later."""

import asyncio

import pytest

from floodmark.apis.deferred import after
from floodmark.promise import Promise


async def test_a_conversion_that_fails_is_heard_of_by_who_waits() -> None:
    outcome: Promise[int] = Promise()

    def inverse(value: int) -> int:
        return 1 // value

    response = after(outcome, inverse)
    assert isinstance(response, Promise)
    outcome.set(0)
    with pytest.raises(ZeroDivisionError):
        await asyncio.wait_for(response, 10)
