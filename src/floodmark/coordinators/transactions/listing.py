"""Filters this broker's transactions. PURE; called by `transactions.service`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from floodmark.coordinators.patterns import InvalidPattern, full_match_of
from floodmark.coordinators.transactions.states import BY_LABEL
from floodmark.coordinators.transactions.transaction import Transaction
from floodmark.wire.errors import ErrorCode


class TransactionFilter(NamedTuple):
    """Empty sets, a negative duration and no pattern match everything."""

    producer_ids: frozenset[int] = frozenset()
    state_labels: tuple[str, ...] = ()
    min_duration_ms: int = -1
    transactional_id_pattern: str | None = None


@dataclass(slots=True)
class Listing:
    error_code: ErrorCode
    unknown_state_labels: list[str] = field(default_factory=list)
    transactions: list[Transaction] = field(default_factory=list)


def list_transactions(
    shards: Iterable[Iterable[Transaction]], wanted: TransactionFilter, now_ms: int
) -> Listing:
    listing = Listing(ErrorCode.NONE)
    listing.unknown_state_labels = [label for label in wanted.state_labels if label not in BY_LABEL]
    states = {BY_LABEL[label] for label in wanted.state_labels if label in BY_LABEL}
    matches = None
    if wanted.transactional_id_pattern:
        try:
            matches = full_match_of(wanted.transactional_id_pattern)
        except InvalidPattern:
            return Listing(ErrorCode.INVALID_REGULAR_EXPRESSION)
    for shard in shards:
        for transaction in shard:
            if wanted.producer_ids and transaction.producer_id not in wanted.producer_ids:
                continue
            if wanted.state_labels and transaction.state not in states:
                continue
            duration_ms = now_ms - transaction.start_ms
            if wanted.min_duration_ms >= 0 and duration_ms <= wanted.min_duration_ms:
                continue
            if matches is not None and not matches(transaction.transactional_id):
                continue
            listing.transactions.append(transaction)
    return listing
