"""The structure of a coordinator: one shard per partition of the internal topic. PURE.

A request handler is a function of a shard and the time. It returns a `Write`: the records to
append, and the response once they are committed. It does not change hard state itself. `replay`
does, which also runs when a partition is loaded after a failover. Handlers may change soft state
(timers, waiting clients), because a failover loses it anyway.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, Protocol, TypeAlias, TypeVar

from floodmark.coordinators.ports import CoordinatorError, GuardedAppend

T = TypeVar("T")
R = TypeVar("R")


class Producer(NamedTuple):
    """The producer of a transactional batch."""

    producer_id: int
    producer_epoch: int


@dataclass(slots=True)
class Write(Generic[T]):
    """A handler's decision.

    `records` are the shard's own record objects; `shard.encode` turns them into bytes, in one
    batch. `atomic=False` is for independent records, such as tombstones: if they are too large for
    one batch, they are appended in several, in order, and a failure does not undo the earlier ones.
    `applied` is called once the records are appended and replayed, committed or not. `then` is
    called once, when everything is committed (None) or has failed (the reason). `replay=False` is
    for state that the handler has already changed (classic groups). `producer` makes the batch
    transactional: `replay` keeps its records pending until the marker. `guarded_append` appends
    such a batch, but only while its transaction is open.
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
        """Key and value. Without a value it is a tombstone."""

    def decode(self, key: bytes, value: bytes | None) -> R | None:
        """The inverse, for loading. None for records written by newer versions."""

    def replay(self, record: R, offset: int, producer: Producer | None) -> None:
        """Changes the hard state; nothing else does."""

    def end_transaction(self, producer: Producer, *, committed: bool) -> None:
        """A marker in the log ends the producer's transaction here."""

    def loaded(self, now_ms: int) -> None:
        """The whole log has been replayed: sets timers."""

    def unloaded(self) -> None:
        """Leadership is lost: responds to waiting requests. The runtime drops the timers."""


TimerOperation: TypeAlias = Callable[[Any, int], Write[Any]]
"""Runs like a handler: takes the shard and now_ms, and returns a `Write`."""


class Timers(Protocol):
    """The timers of one shard. A key has at most one: scheduling it again replaces it."""

    def schedule(self, key: str, delay_ms: float, operation: TimerOperation) -> None: ...

    def cancel(self, key: str) -> None: ...

    def is_scheduled(self, key: str) -> bool: ...
