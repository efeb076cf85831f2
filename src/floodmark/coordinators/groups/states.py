"""The states of a classic group, and the table of moves between them. PURE.

Nothing but `ClassicGroup.transition` changes a state, and it asks this table.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType


class ClassicState(Enum):
    """The values are the names that DescribeGroups and ListGroups answer."""

    EMPTY = "Empty"
    """No members; committed offsets may be kept."""
    PREPARING_REBALANCE = "PreparingRebalance"
    """Members are joining; who was a member is expected to join again."""
    COMPLETING_REBALANCE = "CompletingRebalance"
    """All have joined; the leader is expected to send the assignment."""
    STABLE = "Stable"
    """Every member can have its assignment."""
    DEAD = "Dead"
    """Unloaded or deleted; nothing comes after."""


MAY_FOLLOW: Mapping[ClassicState, frozenset[ClassicState]] = MappingProxyType(
    {
        ClassicState.EMPTY: frozenset(
            {ClassicState.PREPARING_REBALANCE, ClassicState.DEAD},
        ),
        ClassicState.PREPARING_REBALANCE: frozenset(
            {ClassicState.COMPLETING_REBALANCE, ClassicState.EMPTY, ClassicState.DEAD},
        ),
        ClassicState.COMPLETING_REBALANCE: frozenset(
            {ClassicState.STABLE, ClassicState.PREPARING_REBALANCE, ClassicState.DEAD},
        ),
        ClassicState.STABLE: frozenset(
            {ClassicState.PREPARING_REBALANCE, ClassicState.DEAD},
        ),
        ClassicState.DEAD: frozenset({ClassicState.DEAD}),
    }
)
"""Which states may follow a state."""

CAN_REBALANCE = frozenset(
    state
    for state, next_states in MAY_FOLLOW.items()
    if ClassicState.PREPARING_REBALANCE in next_states
)
