"""Filters this broker's transactions. PURE; called by `transactions.service`."""

from __future__ import annotations

from collections.abc import Iterable, Set
from dataclasses import dataclass, field
from typing import NamedTuple

from floodmark.coordinators.patterns import full_match_of
from floodmark.coordinators.transactions.states import BY_LABEL
from floodmark.coordinators.transactions.transaction import Transaction
from floodmark.wire.errors import ErrorCode


class TransactionFilter(NamedTuple):
    """Empty sets and a negative duration match everything."""

    producer_ids: frozenset[int] = frozenset()
    state_labels: tuple[str, ...] = ()
    min_duration_ms: int = -1


@dataclass(slots=True)
class Listing:
    error_code: ErrorCode
    unknown_state_labels: list[str] = field(default_factory=list)
    transactions: list[Transaction] = field(default_factory=list)


def matching_ids(pattern: str, transactional_ids: Iterable[str]) -> frozenset[str]:
    """Raises InvalidPattern."""
    return frozenset(filter(full_match_of(pattern), transactional_ids))


def list_transactions(
    shards: Iterable[Iterable[Transaction]],
    wanted: TransactionFilter,
    now_ms: int,
    among: Set[str] | None = None,
) -> Listing:
    """`among`: the only transactional ids to look at."""
    listing = Listing(ErrorCode.NONE)
    listing.unknown_state_labels = [label for label in wanted.state_labels if label not in BY_LABEL]
    states = {BY_LABEL[label] for label in wanted.state_labels if label in BY_LABEL}
    for shard in shards:
        for transaction in shard:
            if wanted.producer_ids and transaction.producer_id not in wanted.producer_ids:
                continue
            if wanted.state_labels and transaction.state not in states:
                continue
            duration_ms = now_ms - transaction.start_ms
            if wanted.min_duration_ms >= 0 and duration_ms <= wanted.min_duration_ms:
                continue
            if among is not None and transaction.transactional_id not in among:
                continue
            listing.transactions.append(transaction)
    return listing
