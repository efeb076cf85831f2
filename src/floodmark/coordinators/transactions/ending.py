"""The verdict on a request to commit or abort, by the current state. PURE.

There are two tables, because KIP-890 changed the rules: a version 2 client gets a new epoch with
every transaction, so an old epoch marks a repeated request. Used by `shard.py`.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from floodmark.coordinators.shard import Producer
from floodmark.coordinators.transactions.states import (
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    COMPLETED,
    EMPTY,
    ONGOING,
    TransactionState,
)
from floodmark.coordinators.transactions.transaction import (
    EPOCH_BUMP_VERSION,
    EXHAUSTED_PRODUCER_EPOCH,
    Transaction,
)
from floodmark.wire.errors import ErrorCode


class Verdict(Enum):
    PREPARE = "decide the outcome and write the markers"
    DONE_BEFORE = "it is what already happened"
    BUSY = "a move is not committed yet, or the markers of the outcome are under way"
    INVALID = "the state does not allow it"
    FENCED = "another producer has taken over"
    FOREIGN = "the producer id is not this transactional id's"

    @property
    def error_code(self) -> ErrorCode:
        return _ERROR_CODES[self]


_ERROR_CODES: Final[dict[Verdict, ErrorCode]] = {
    Verdict.PREPARE: ErrorCode.NONE,
    Verdict.DONE_BEFORE: ErrorCode.NONE,
    Verdict.BUSY: ErrorCode.CONCURRENT_TRANSACTIONS,
    Verdict.INVALID: ErrorCode.INVALID_TXN_STATE,
    Verdict.FENCED: ErrorCode.PRODUCER_FENCED,
    Verdict.FOREIGN: ErrorCode.INVALID_PRODUCER_ID_MAPPING,
}

COMMIT: Final = True
ABORT: Final = False

# (state, outcome), before version 2: only a started transaction can be ended.
_FIRST_VERSION: Final[dict[tuple[TransactionState, bool], Verdict]] = {
    (EMPTY, COMMIT): Verdict.INVALID,
    (EMPTY, ABORT): Verdict.INVALID,
    (ONGOING, COMMIT): Verdict.PREPARE,
    (ONGOING, ABORT): Verdict.PREPARE,
    (COMPLETE_COMMIT, COMMIT): Verdict.DONE_BEFORE,
    (COMPLETE_COMMIT, ABORT): Verdict.INVALID,
    (COMPLETE_ABORT, COMMIT): Verdict.INVALID,
    (COMPLETE_ABORT, ABORT): Verdict.DONE_BEFORE,
}

# (state, outcome, is a repeat). A client that does not know whether its first produce started a
# transaction aborts to be sure. So aborting nothing is fine and costs an epoch.
_SECOND_VERSION: Final[dict[tuple[TransactionState, bool, bool], Verdict]] = {
    (EMPTY, COMMIT, False): Verdict.INVALID,
    (EMPTY, ABORT, False): Verdict.PREPARE,
    (ONGOING, COMMIT, False): Verdict.PREPARE,
    (ONGOING, ABORT, False): Verdict.PREPARE,
    (COMPLETE_COMMIT, COMMIT, False): Verdict.INVALID,
    (COMPLETE_COMMIT, ABORT, False): Verdict.PREPARE,
    (COMPLETE_ABORT, COMMIT, False): Verdict.INVALID,
    (COMPLETE_ABORT, ABORT, False): Verdict.PREPARE,
    (COMPLETE_COMMIT, COMMIT, True): Verdict.DONE_BEFORE,
    (COMPLETE_COMMIT, ABORT, True): Verdict.INVALID,
    (COMPLETE_ABORT, COMMIT, True): Verdict.INVALID,
    (COMPLETE_ABORT, ABORT, True): Verdict.DONE_BEFORE,
}


def judge_end(
    transaction: Transaction,
    producer: Producer,
    client_version: int,
    *,
    is_busy: bool,
    committed: bool,
) -> Verdict:
    if client_version >= EPOCH_BUMP_VERSION:
        return _judge_second_version(transaction, producer, is_busy, committed)
    return _judge_first_version(transaction, producer, is_busy, committed)


def _judge_first_version(
    transaction: Transaction, producer: Producer, is_busy: bool, committed: bool
) -> Verdict:
    if transaction.producer_id != producer.producer_id:
        return Verdict.FOREIGN
    if transaction.producer_epoch != producer.producer_epoch:
        return Verdict.FENCED
    if is_busy:
        return Verdict.BUSY
    return _FIRST_VERSION[transaction.state, committed]


def _judge_second_version(
    transaction: Transaction, producer: Producer, is_busy: bool, committed: bool
) -> Verdict:
    # Check this first: the producer may use an id that it will own only once the markers are
    # written.
    if is_busy:
        return Verdict.BUSY
    epoch = producer.producer_epoch
    is_repeat_over_new_id = (
        transaction.previous_producer_id == producer.producer_id
        and epoch == EXHAUSTED_PRODUCER_EPOCH
        and transaction.producer_epoch == 0
    )
    if transaction.producer_id != producer.producer_id and not is_repeat_over_new_id:
        return Verdict.FOREIGN
    is_repeat = is_repeat_over_new_id or transaction.producer_epoch == epoch + 1
    if is_repeat and transaction.state not in COMPLETED:
        return Verdict.FENCED
    if not is_repeat and transaction.producer_epoch != epoch:
        return Verdict.FENCED
    return _SECOND_VERSION[transaction.state, committed, is_repeat]
