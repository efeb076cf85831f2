"""Guards that tie the verification of a transaction to the append that follows it (KIP-890).

Before the first batch of a transaction is appended to a partition, the transaction coordinator is
asked whether the partition belongs to the transaction. The answer may take a while, and a marker
may end the transaction meanwhile. So the partition hands out a guard before the question, a marker
takes it back, and the append succeeds only with the guard that is still there: whatever was written
without one would open a transaction that nobody ends. Used by producer_state.py.
"""

from __future__ import annotations

from enum import Enum
from typing import TypeAlias


class Unguarded(Enum):
    """What an append says that has no guard of its own."""

    MUST_BE_OPEN = "the transaction must be open in this partition"
    NOT_CHECKED = "nobody verifies: a replay, or verification is switched off"


class TransactionGuard:
    """One verification under way. Its identity is what counts.

    All requests of a producer share it until the first of them is appended; `lowest_sequence` keeps
    those with later sequences from going first.
    """

    __slots__ = ("bumps_epoch", "lowest_sequence", "producer_epoch", "started_ms")

    def __init__(
        self, producer_epoch: int, base_sequence: int, now_ms: int, bumps_epoch: bool
    ) -> None:
        self.producer_epoch = producer_epoch
        self.lowest_sequence = base_sequence
        self.started_ms = now_ms
        self.bumps_epoch = bumps_epoch
        """Whether the client is of the second transaction version: an epoch per transaction."""

    def include(self, producer_epoch: int, base_sequence: int) -> None:
        """Another batch of the producer waits to be verified."""
        if producer_epoch > self.producer_epoch:
            self.producer_epoch = producer_epoch
            self.lowest_sequence = base_sequence
        elif producer_epoch == self.producer_epoch:
            self.lowest_sequence = min(self.lowest_sequence, base_sequence)

    def outlives_marker(self, producer_epoch: int) -> bool:
        """In the second version a marker carries the epoch of the transaction that follows, so it
        may arrive when that one is being verified already."""
        return self.bumps_epoch and producer_epoch == self.producer_epoch


Guard: TypeAlias = TransactionGuard | Unguarded
