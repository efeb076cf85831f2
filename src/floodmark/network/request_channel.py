"""The bounded queue between connections and handlers, and its meters.

A handler slot stands for one of Kafka's request handler threads (`num.io.threads`). All slots share
the broker's one loop. `submit` runs a request immediately. If its work continues after that, it
takes a slot, or is queued (up to `queued.max.requests`) if none is free. So a produce never waits
behind a topic creation. When the queue is full, connections stop reading until there is room:
back-pressure instead of memory.

A handler's result determines what happens until the response:

- bytes, or a list of parts with file slices: the response, now;
- None: there is no response (a produce with acks=0);
- `Throttled`: one of these, after which the connection stays muted for a while;
- a `Promise` of the response: the request waits for an event. Its slot is free, its connection
  stays muted;
- a coroutine: the request needs work, and holds a slot from its first step to its end, which may be
  any of these results;
- `Waiting`: a coroutine that needs no slot.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from enum import Enum
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeAlias, TypeVar

from floodmark.clock import Clock
from floodmark.network.transfer import Answer
from floodmark.occurrences import Occurrences, repeated
from floodmark.promise import Promise

logger = logging.getLogger(__name__)

T = TypeVar("T")

TIMED_EVERY = 16
"""One in this many requests is timed and stands for all: reading the clock twice costs a tenth of a
small request."""


class Throttled(NamedTuple):
    """A response, or none, after which its connection is not read for a while (KIP-219)."""

    answer: Answer | None
    throttle_ms: int


Response: TypeAlias = "Answer | Throttled | None"


class NoAnswerYet(Enum):
    """Returned by `submit` if there is no immediate response."""

    TAKEN = "the requester hears when the request is done"
    NO_ROOM = "nothing was taken; the requester hears when there is room"


# Looking up an enum member costs as much as a call.
TAKEN: Final = NoAnswerYet.TAKEN
NO_ROOM: Final = NoAnswerYet.NO_ROOM


class Waiting(Generic[T]):
    """Work that mostly waits for other brokers.

    It takes no slot. Two brokers whose slots all waited for each other would never go on: the
    answers need slots, too, and so do the controller's requests.
    """

    __slots__ = ("work",)

    def __init__(self, work: Coroutine[Any, Any, T]) -> None:
        self.work = work

    def __await__(self) -> Generator[Any, None, T]:
        return self.work.__await__()


Work: TypeAlias = "Coroutine[Any, Any, Outcome]"
Outcome: TypeAlias = "Response | Promise[Response] | Waiting[Response] | Work"


class CloseConnection(Exception):
    """Closes the connection, because its protocol has no response to the request, or after sending
    `last_words`, the response."""

    def __init__(self, reason: str, last_words: Answer | None = None) -> None:
        super().__init__(reason)
        self.last_words = last_words


class Requester(Protocol):
    """What the channel needs from a connection."""

    @property
    def connection_id(self) -> str: ...
    def respond(self, response: Response) -> None: ...
    def abort(self, reason: str, last_words: Answer | None = None) -> None: ...
    def parked(self, abandon: Callable[[], None]) -> None:
        """The request waits. Call `abandon` if the peer leaves meanwhile."""

    def channel_has_room(self) -> None: ...


Handler: TypeAlias = Callable[[Any, memoryview], Outcome]


def _refuse(_requester: object, _frame: memoryview) -> Outcome:
    raise CloseConnection("the broker is stopping")


class RequestChannel:
    """Runs requests in slots, queues the others, and measures the load."""

    def __init__(self, handler: Handler, *, slots: int, capacity: int, clock: Clock) -> None:
        self._handler = handler
        self.slots = slots
        self._capacity = capacity
        self._clock = clock
        self._busy = 0
        self._queue: deque[tuple[Requester, Work]] = deque()
        self._refused: deque[Requester] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        self._started_ms = clock.monotonic_ms()
        self._started_cpu_ms = clock.cpu_ms()
        self._requests = 0
        self._handling_ms = self._held_ms = 0.0
        self._failures = Occurrences()
        self.internal_errors = 0

    @property
    def queue_size(self) -> int:
        return len(self._queue)

    def resize(self, slots: int) -> None:
        """`num.io.threads` is dynamic in Kafka: a change takes effect immediately."""
        self.slots = slots
        self._drain()

    def idle_share(self) -> float:
        """The spare capacity since the last call (RequestHandlerAvgIdlePercent).

        The minimum of the loop's CPU time, its time between requests (it may wait for a disk), and
        free slots.
        """
        now_ms, cpu_ms = self._clock.monotonic_ms(), self._clock.cpu_ms()
        elapsed_ms = max(now_ms - self._started_ms, 1e-6)
        computing_ms = cpu_ms - self._started_cpu_ms
        busy_ms = max(computing_ms, self._handling_ms, self._held_ms / self.slots)
        self._started_ms, self._started_cpu_ms = now_ms, cpu_ms
        self._handling_ms = self._held_ms = 0.0
        return 1.0 - min(busy_ms / elapsed_ms, 1.0)

    def submit(self, requester: Requester, frame: memoryview) -> Response | NoAnswerYet:
        """Accepts the request if there is room. Returns the response if it is already there."""
        if self._queue and len(self._queue) >= self._capacity:
            self._refused.append(requester)
            return NO_ROOM
        self._requests = requests = self._requests + 1
        begin_ms = None if requests % TIMED_EVERY else self._clock.monotonic_ms()
        try:
            outcome = self._handler(requester, frame)
            if (
                isinstance(outcome, bytes)
                or outcome is None
                or isinstance(outcome, (list, Throttled))
            ):
                return outcome
            self._await(requester, outcome)
        except CloseConnection as problem:
            requester.abort(str(problem), problem.last_words)
        except Exception as problem:  # noqa: BLE001 - the supervisor of requests
            self._fail(requester, problem)
        finally:
            if begin_ms is not None:
                self._handling_ms += (self._clock.monotonic_ms() - begin_ms) * TIMED_EVERY
        return TAKEN

    def _await(
        self, requester: Requester, outcome: Promise[Response] | Waiting[Response] | Work
    ) -> None:
        if isinstance(outcome, Promise):
            self._park(requester, outcome)
        elif isinstance(outcome, Waiting):
            self._run(self._end(requester, outcome.work))
        elif self._busy < self.slots:
            self._start(requester, outcome)
        else:
            self._queue.append((requester, outcome))

    async def close(self) -> None:
        """Stops running requests, never starts queued ones, and accepts no more."""
        self._capacity = 0
        # Connections are still open, but no new request may start.
        self._handler = _refuse
        # A task cancelled before its first step never awaits its work, which Python warns about. So
        # let each one start.
        await asyncio.sleep(0)
        for _, work in self._queue:
            work.close()
        self._queue.clear()
        self._refused.clear()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _park(self, requester: Requester, answer: Promise[Response]) -> None:
        def respond(response: Response) -> None:
            try:
                requester.respond(response)
            except Exception as problem:  # noqa: BLE001 - the supervisor of requests
                fail(problem)

        def fail(problem: BaseException) -> None:
            if isinstance(problem, CloseConnection):
                requester.abort(str(problem), problem.last_words)
            else:
                self._fail(requester, problem)

        requester.parked(answer.abandon)
        answer.then(respond, fail)

    def _start(self, requester: Requester, work: Work) -> None:
        self._busy += 1
        self._run(self._work(requester, work))

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _work(self, requester: Requester, work: Work) -> None:
        begin_ms = self._clock.monotonic_ms()
        try:
            await self._end(requester, work)
        finally:
            self._busy -= 1
            self._held_ms += self._clock.monotonic_ms() - begin_ms
            self._drain()

    async def _end(self, requester: Requester, work: Work) -> None:
        try:
            outcome = await work
            if outcome is None or isinstance(outcome, (bytes, list, Throttled)):
                requester.respond(outcome)
            else:
                self._await(requester, outcome)
        except CloseConnection as problem:
            requester.abort(str(problem), problem.last_words)
        except Exception as problem:  # noqa: BLE001 - the supervisor of requests
            self._fail(requester, problem)

    def _fail(self, requester: Requester, problem: BaseException) -> None:
        """A bug of ours must cost one connection, never the broker, and must be logged loudly."""
        self.internal_errors += 1
        times = self._failures.worth_telling(repr(problem))
        if times:
            logger.error(
                "request of %s failed inside the broker%s; closing that connection",
                requester.connection_id,
                repeated(times),
                exc_info=problem,
            )
        requester.abort("internal error")

    def _drain(self) -> None:
        while self._queue and self._busy < self.slots:
            self._start(*self._queue.popleft())
        while self._refused and len(self._queue) < self._capacity:
            self._refused.popleft().channel_has_room()
