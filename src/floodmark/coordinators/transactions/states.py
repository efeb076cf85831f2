"""The states of a transaction and the allowed transitions. PURE.

`NEXT_STATES` is the whole state machine. `transaction.py` makes the transitions, `shard.py` decides
on them, and a transition that is not in the table is a bug of ours.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final


class TransactionState(IntEnum):
    """The numbers are those in `__transaction_state`."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def label(self) -> str:
        """The name in Kafka's tools, such as PrepareCommit."""
        return self.name.title().replace("_", "")


EMPTY: Final = TransactionState.EMPTY
ONGOING: Final = TransactionState.ONGOING
PREPARE_COMMIT: Final = TransactionState.PREPARE_COMMIT
PREPARE_ABORT: Final = TransactionState.PREPARE_ABORT
COMPLETE_COMMIT: Final = TransactionState.COMPLETE_COMMIT
COMPLETE_ABORT: Final = TransactionState.COMPLETE_ABORT
DEAD: Final = TransactionState.DEAD

NEXT_STATES: Final[dict[TransactionState, frozenset[TransactionState]]] = {
    # A KIP-890 producer may abort without knowing whether it had started: to PREPARE_ABORT.
    EMPTY: frozenset({EMPTY, ONGOING, PREPARE_ABORT, DEAD}),
    ONGOING: frozenset({ONGOING, PREPARE_COMMIT, PREPARE_ABORT}),
    PREPARE_COMMIT: frozenset({COMPLETE_COMMIT}),
    PREPARE_ABORT: frozenset({COMPLETE_ABORT}),
    COMPLETE_COMMIT: frozenset({EMPTY, ONGOING, PREPARE_ABORT, DEAD}),
    COMPLETE_ABORT: frozenset({EMPTY, ONGOING, PREPARE_ABORT, DEAD}),
    # Dead ids are removed from the log, and Kafka's fence is a step inside one of its appends. We
    # never store a transaction in either state.
    DEAD: frozenset(),
    TransactionState.PREPARE_EPOCH_FENCE: frozenset({PREPARE_ABORT}),
}

PREPARED: Final = frozenset({PREPARE_COMMIT, PREPARE_ABORT})
"""The outcome is decided and its markers are being written: all other requests must wait."""

COMPLETED: Final = frozenset({COMPLETE_COMMIT, COMPLETE_ABORT})

BY_LABEL: Final[dict[str, TransactionState]] = {state.label: state for state in TransactionState}
