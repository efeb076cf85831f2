"""How busy the request channel says that the broker is."""

import asyncio
import gc
import warnings
from typing import Any

import pytest

from floodmark.network.request_channel import TIMED_EVERY, RequestChannel, Waiting
from floodmark.promise import Promise
from floodmark.testing.virtual_clock import VirtualClock
from kit.waiting import eventually

SLOTS = 8


class Processing(VirtualClock):
    """A clock of a thread that computes only when a test says so."""

    computed_ms = 0.0

    def cpu_ms(self) -> float:
        return self.computed_ms


class Nobody:
    connection_id = "nobody"

    def __init__(self) -> None:
        self.answered = asyncio.Event()

    def respond(self, response: Any) -> None:
        self.answered.set()

    def abort(self, reason: str, last_words: Any = None) -> None:
        self.ended_by = reason

    def parked(self, abandon: Any) -> None:
        raise AssertionError("no request of these tests waits for an event")

    def channel_has_room(self) -> None:
        raise AssertionError("the channel of these tests is never full")


@pytest.fixture
def clock() -> Processing:
    return Processing()


def channel_of(clock: Processing, handler: Any) -> RequestChannel:
    return RequestChannel(handler, slots=SLOTS, capacity=10, clock=clock)


def test_a_broker_that_is_asked_nothing_is_idle(clock: Processing) -> None:
    channel = channel_of(clock, lambda *_: b"")
    clock.advance(1000)
    assert channel.idle_share() == 1.0


def test_computing_counts_whatever_the_number_of_slots(clock: Processing) -> None:
    channel = channel_of(clock, lambda *_: b"")
    clock.advance(1000)
    clock.computed_ms += 750
    assert channel.idle_share() == pytest.approx(0.25)
    clock.advance(1000)
    assert channel.idle_share() == 1.0, "each call tells of the time since the last one"


def test_requests_that_wait_for_a_disk_keep_the_broker_busy(clock: Processing) -> None:
    def waits(*_: Any) -> bytes:
        clock.advance(5)
        return b"late"

    channel = channel_of(clock, waits)
    for _ in range(10 * TIMED_EVERY):
        assert channel.submit(Nobody(), memoryview(b"")) == b"late"
    assert channel.idle_share() == pytest.approx(0.0)


async def test_work_that_holds_slots_counts_by_their_share(clock: Processing) -> None:
    requesters = [Nobody() for _ in range(SLOTS // 2)]
    begun, gate = asyncio.Barrier(len(requesters) + 1), asyncio.Event()

    async def work() -> bytes:
        await begun.wait()
        await gate.wait()
        return b"done"

    channel = channel_of(clock, lambda *_: work())
    for requester in requesters:
        channel.submit(requester, memoryview(b""))
    await begun.wait()
    clock.advance(1000)
    gate.set()
    for requester in requesters:
        await requester.answered.wait()
    await channel.close()
    assert channel.idle_share() == pytest.approx(0.5)


async def test_work_that_was_just_taken_is_ended_without_a_warning(clock: Processing) -> None:
    """As when a broker is stopped in the moment in which a request comes."""
    begun: list[str] = []

    async def handle() -> bytes:
        begun.append("handle")
        await asyncio.Event().wait()
        return b"never"

    async def finish(work: Any) -> bytes:
        return await work

    channel = channel_of(clock, lambda *_: finish(handle()))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        channel.submit(Nobody(), memoryview(b""))
        await channel.close()
        gc.collect()
    assert not caught
    assert begun


async def test_what_comes_while_it_closes_is_not_begun(clock: Processing) -> None:
    """Connections are closed after the channel: their requests must not begin behind its back."""
    begun: list[str] = []

    async def work() -> bytes:
        begun.append("work")
        await asyncio.Event().wait()
        return b"never"

    channel = channel_of(clock, lambda *_: work())
    channel.submit(Nobody(), memoryview(b""))
    closing = asyncio.ensure_future(channel.close())
    await asyncio.sleep(0)
    late = Nobody()
    channel.submit(late, memoryview(b""))
    await closing
    assert late.ended_by == "the broker is stopping"
    assert begun == ["work"]


class Waiter(Nobody):
    """A requester whose requests may wait for an event."""

    def parked(self, abandon: Any) -> None: ...


async def test_work_that_waits_for_others_takes_no_slot(clock: Processing) -> None:
    gate = asyncio.Event()

    async def wait() -> bytes:
        await gate.wait()
        return b"late"

    async def work() -> bytes:
        return b"done"

    waiting = [Nobody() for _ in range(2 * SLOTS)]
    outcomes: list[Any] = [*(Waiting(wait()) for _ in waiting), work()]
    channel = channel_of(clock, lambda *_: outcomes.pop(0))
    for requester in waiting:
        channel.submit(requester, memoryview(b""))
    other = Nobody()
    channel.submit(other, memoryview(b""))
    await other.answered.wait()
    assert not any(requester.answered.is_set() for requester in waiting)
    gate.set()
    await asyncio.gather(*(requester.answered.wait() for requester in waiting))
    await channel.close()


@pytest.mark.parametrize("is_promise", [True, False])
async def test_work_that_ends_with_a_wait_gives_its_slot_back(
    clock: Processing, is_promise: bool
) -> None:
    promises: list[Promise[bytes]] = []

    async def work() -> Any:
        promises.append(Promise())
        return promises[-1] if is_promise else Waiting(_kept(promises[-1]))

    requesters = [Waiter() for _ in range(2 * SLOTS)]
    channel = channel_of(clock, lambda *_: work())
    for requester in requesters:
        channel.submit(requester, memoryview(b""))
    await eventually(lambda: len(promises) == len(requesters))
    assert not any(requester.answered.is_set() for requester in requesters)
    for promise in promises:
        promise.set(b"done")
    await asyncio.gather(*(requester.answered.wait() for requester in requesters))
    await channel.close()


async def _kept(promise: Promise[bytes]) -> bytes:
    return await promise


async def test_waiting_work_ends_with_the_channel(clock: Processing) -> None:
    is_cancelled = False

    async def wait() -> bytes:
        nonlocal is_cancelled
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            is_cancelled = True
            raise
        return b""

    channel = channel_of(clock, lambda *_: Waiting(wait()))
    channel.submit(Nobody(), memoryview(b""))
    await channel.close()
    assert is_cancelled
