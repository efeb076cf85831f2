"""Makes a broker under test misbehave: fail, delay, or lose requests.

PUBLIC. Available as `faults` on `floodmark.testing.Broker` and on the `floodmark` fixture. Each
call arms a fault for the next `times` requests of an API:

    floodmark.faults.fail("PRODUCE", "NOT_ENOUGH_REPLICAS", times=2)
    floodmark.faults.delay("FETCH", 0.5)
    floodmark.faults.drop("PRODUCE", handled=True)   # appended, but the client never finds out

Any thread may arm faults.
"""

from __future__ import annotations

import asyncio
import inspect
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, TypeAlias, TypeVar

from floodmark.apis.dispatch import FaultSwitch
from floodmark.apis.error_answers import error_answer
from floodmark.apis.route import Route
from floodmark.network.request_channel import CloseConnection
from floodmark.promise import Promise
from floodmark.wire.api_keys import ApiKey
from floodmark.wire.errors import ErrorCode

ERROR_TEXT = "made to fail by a test"

E = TypeVar("E", bound=IntEnum)
Handle: TypeAlias = Callable[[], object]
Effect: TypeAlias = Callable[[Route, object, Handle], object]


@dataclass(slots=True, eq=False)
class _Fault:
    api_key: ApiKey
    left: int
    effect: Effect


class StruckCounts(Mapping[str, int]):
    """Counts by API name or ApiKey. An API without faults has 0.

        assert faults.struck["PRODUCE"] == 2
        assert faults.struck == {"PRODUCE": 2, "FETCH": 1}

    An unknown API name raises a ValueError.
    """

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def __getitem__(self, api: ApiKey | str) -> int:
        return self._counts[_named(ApiKey, api).name]

    def __contains__(self, api: object) -> bool:
        return isinstance(api, str | ApiKey) and self[api] > 0

    def __iter__(self) -> Iterator[str]:
        return iter(tuple(self._counts))

    def __len__(self) -> int:
        return len(self._counts)

    def __repr__(self) -> str:
        return repr(dict(self._counts))

    def count(self, api_key: ApiKey) -> None:
        self._counts[api_key.name] += 1

    def clear(self) -> None:
        self._counts.clear()


class Faults(FaultSwitch):
    """Faults strike in the order they were armed. A request meets at most one."""

    def __init__(self) -> None:
        self._armed: list[_Fault] = []
        self.struck = StruckCounts()
        """How many requests of each API met a fault: `faults.struck["PRODUCE"]`."""

    def fail(self, api: ApiKey | str, error: ErrorCode | int | str, *, times: int = 1) -> None:
        """Fails the next requests with this error code, without handling them.

        faults.fail("PRODUCE", "NOT_ENOUGH_REPLICAS", times=2)
        """
        code = _named(ErrorCode, error)
        key = _named(ApiKey, api)

        def refuse(route: Route, request: object, handle: Handle) -> object:
            if getattr(request, "acks", None) == 0:
                raise CloseConnection(f"a test failed a produce without a response: {code.name}")
            return error_answer(route.api_key, route.version, request, code, ERROR_TEXT)

        self._arm(key, times, refuse)

    def delay(self, api: ApiKey | str, delay_s: float, *, times: int = 1) -> None:
        """Delays the handling of the next requests. Other clients are not held up.

            faults.delay("FETCH", 0.5)

        A broker with a `VirtualClock` waits by that clock.
        """
        if delay_s < 0:
            raise ValueError(f"a delay cannot be negative: {delay_s}")

        def wait(route: Route, request: object, handle: Handle) -> object:
            return _promised(_handle_later(delay_s, handle))

        self._arm(_named(ApiKey, api), times, wait)

    def drop(self, api: ApiKey | str, *, times: int = 1, handled: bool = False) -> None:
        """Drops the connection on the next requests: before, or with `handled` after handling.

        faults.drop("PRODUCE", handled=True)  # the classic cause of duplicates
        """

        def close(route: Route, request: object, handle: Handle) -> object:
            if handled:
                return _promised(_handle_and_close(handle))
            raise CloseConnection("a test dropped the request")

        self._arm(_named(ApiKey, api), times, close)

    def clear(self) -> None:
        """Disarms pending faults."""
        self._armed = []

    def reset(self) -> None:
        """Disarms pending faults and resets the counts."""
        self.clear()
        self.struck.clear()

    @property
    def is_armed(self) -> bool:
        """Whether a fault waits for a request."""
        return bool(self._armed)

    def intercept(self, route: Route, request: object, handle: Handle) -> object:
        """Called by the broker for each request while a fault is armed."""
        for fault in tuple(self._armed):
            if fault.api_key is route.api_key and fault.left > 0:
                fault.left -= 1
                if fault.left == 0 and fault in self._armed:
                    self._armed.remove(fault)
                self.struck.count(route.api_key)
                return fault.effect(route, request, handle)
        return handle()

    def _arm(self, api_key: ApiKey, times: int, effect: Effect) -> None:
        if times < 1:
            raise ValueError(f"a fault must strike at least once, not {times} times")
        self._armed.append(_Fault(api_key, times, effect))


def _named(kind: type[E], wanted: int | str) -> E:
    """Accepts Kafka's names or numbers."""
    try:
        return kind[wanted.upper()] if isinstance(wanted, str) else kind(wanted)
    except (KeyError, ValueError):
        raise ValueError(f"{wanted!r} is not a valid {kind.__name__} name") from None


def _promised(work: Coroutine[Any, Any, object]) -> Promise[object]:
    """Runs the work without occupying a request slot of the broker."""
    promise: Promise[object] = Promise()

    async def run() -> None:
        try:
            promise.set(await work)
        except Exception as problem:  # noqa: BLE001 - passed on to the request that waits for it
            promise.fail(problem)

    task = asyncio.get_running_loop().create_task(run())
    promise.on_abandoned = task.cancel
    return promise


async def _handle_later(delay_s: float, handle: Handle) -> object:
    await asyncio.sleep(delay_s)
    return await _handle(handle)


async def _handle_and_close(handle: Handle) -> object:
    await _handle(handle)
    raise CloseConnection("a test dropped the response")


async def _handle(handle: Handle) -> object:
    result = handle()
    while inspect.isawaitable(result):
        result = await result
    return result
