"""The shape of a coordinator: a shard per partition of the internal topic. PURE.

A request handler is a function of a shard and the time. It returns a `Write`: the records to append
and the answer to give once they are safe. It changes no hard state itself: `replay` does, and it is
the same code that runs when a partition is loaded after a failover. Soft state (timers, clients
that wait for an answer) may be changed by handlers, because a failover loses it anyway.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, Protocol, TypeAlias, TypeVar

from floodmark.coordinators.ports import CoordinatorError, GuardedAppend

T = TypeVar("T")
R = TypeVar("R")


class Producer(NamedTuple):
    """Who wrote a transactional batch."""

    producer_id: int
    producer_epoch: int


@dataclass(slots=True)
class Write(Generic[T]):
    """What a handler decided.

    `records` are the shard's own record objects; `shard.encode` makes bytes of them, in one batch.
    `atomic=False` is for records that stand each for themselves, such as tombstones: what is too
    large for one batch is appended in several, in order, and when one of them fails those before it
    have happened.
    `applied` is called when the records are appended and replayed, committed or not.
    `then` is called once, when everything is committed (None) or when it failed (why).
    `replay=False` is for state that the handler had to change already (classic groups).
    `producer` makes the batch transactional: `replay` keeps its records pending until the marker.
    `guarded_append` is how such a batch gets into the log: only while its transaction is open.
    """

    answer: T
    records: Sequence[Any] = ()
    applied: Callable[[], None] | None = None
    then: Callable[[CoordinatorError | None], None] | None = None
    replay: bool = True
    producer: Producer | None = None
    guarded_append: GuardedAppend | None = None
    atomic: bool = True


class Shard(Protocol[R]):
    """The state of one partition of the internal topic."""

    def encode(self, record: R) -> tuple[bytes, bytes | None]:
        """Key and value; no value is a tombstone."""

    def decode(self, key: bytes, value: bytes | None) -> R | None:
        """The way back, when loading; None for records that a newer version wrote."""

    def replay(self, record: R, offset: int, producer: Producer | None) -> None:
        """Change the hard state; nothing else does."""

    def end_transaction(self, producer: Producer, *, committed: bool) -> None:
        """A marker in the log ends the producer's transaction here."""

    def loaded(self, now_ms: int) -> None:
        """All of the log has been replayed: set timers."""

    def unloaded(self) -> None:
        """Leadership moved away: answer whoever still waits. Timers are dropped by the runtime."""


TimerOperation: TypeAlias = Callable[[Any, int], Write[Any]]
"""Runs as a handler does: shard and now_ms in, a `Write` out."""


class Timers(Protocol):
    """The timers of one shard. A key has at most one: scheduling it again replaces it."""

    def schedule(self, key: str, delay_ms: float, operation: TimerOperation) -> None: ...

    def cancel(self, key: str) -> None: ...

    def is_scheduled(self, key: str) -> bool: ...
