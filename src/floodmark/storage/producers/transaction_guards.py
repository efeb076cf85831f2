"""Guards that tie a transaction's verification to the append that follows it (KIP-890).

Before a transaction's first batch is appended to a partition, the transaction coordinator must
confirm that the partition belongs to the transaction. The response may take a while, and a marker
may end the transaction meanwhile. So the partition issues a guard before the request, a marker
revokes it, and the append succeeds only with a valid guard. A write without one would open a
transaction that nobody ends. Used by producer_state.py.
"""

from __future__ import annotations

from enum import Enum
from typing import TypeAlias


class Unguarded(Enum):
    """Passed by an append without a guard."""

    MUST_BE_OPEN = "the transaction must be open in this partition"
    NOT_CHECKED = "nobody verifies: a replay, or verification is switched off"


class TransactionGuard:
    """One verification in progress. Its identity is what counts.

    All requests of a producer share it until the first of them is appended. `lowest_sequence` keeps
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
        """Whether the client uses transaction version 2: an epoch per transaction."""

    def include(self, producer_epoch: int, base_sequence: int) -> None:
        """Another batch of the producer waits for verification."""
        if producer_epoch > self.producer_epoch:
            self.producer_epoch = producer_epoch
            self.lowest_sequence = base_sequence
        elif producer_epoch == self.producer_epoch:
            self.lowest_sequence = min(self.lowest_sequence, base_sequence)

    def outlives_marker(self, producer_epoch: int) -> bool:
        """Whether a marker of this epoch leaves the guard valid.

        In the second version a marker carries the next transaction's epoch, so it may arrive while
        that one is already being verified.
        """
        return self.bumps_epoch and producer_epoch == self.producer_epoch


AppendGuard: TypeAlias = TransactionGuard | Unguarded
