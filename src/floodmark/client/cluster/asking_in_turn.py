"""Asks one broker after the other until one responds. The next one joins in when one is slow.

`cluster.py` uses it for requests that any broker can answer, such as metadata. A paused broker
accepts connections and requests, so none of these may depend on a single broker.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, TypeVar

from floodmark.client.cluster.connection import Address
from floodmark.client.errors import ConnectionFailed, KafkaError, RequestTimedOut

T = TypeVar("T")


async def ask_in_turn(
    addresses: Iterable[Address],
    ask: Callable[[Address], Coroutine[Any, Any, T]],
    *,
    patience_s: float,
    on_slow: Callable[[Address], object],
) -> T:
    """The first response. Calls `on_slow` for a broker that has not responded in `patience_s`."""
    left = deque(addresses)
    waiting: set[asyncio.Task[T]] = set()
    failures: list[KafkaError] = []
    try:
        while left or waiting:
            asked = left.popleft() if left else None
            if asked is not None:
                waiting.add(asyncio.create_task(ask(asked)))
            done, waiting = await asyncio.wait(
                waiting,
                timeout=patience_s if left else None,
                return_when=asyncio.FIRST_COMPLETED,
            )
            if not done and asked is not None:
                on_slow(asked)
            # All are looked at: asyncio complains about errors that nobody has seen.
            errors = {task: task.exception() for task in done}
            for task, error in errors.items():
                if error is None:
                    return task.result()
            failures += (_of_connection(error) for error in errors.values())
    finally:
        for task in waiting:
            task.cancel()
    raise _summary(failures)


def _of_connection(error: BaseException | None) -> KafkaError:
    """Any other error is a broker's response, and the others would say the same."""
    if isinstance(error, ConnectionFailed | RequestTimedOut):
        return error
    assert error is not None
    raise error


def _summary(failures: list[KafkaError]) -> KafkaError:
    for error in failures:
        if isinstance(error, RequestTimedOut):
            return error
    return ConnectionFailed("no broker is reachable: " + "; ".join(e.text for e in failures))
