"""The states of a classic group and the allowed transitions. PURE.

Only `ClassicGroup.transition` changes a state, and it checks this table.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType


class ClassicState(Enum):
    """The values are the names in DescribeGroups and ListGroups responses."""

    EMPTY = "Empty"
    """No members. Committed offsets may remain."""
    PREPARING_REBALANCE = "PreparingRebalance"
    """Members are joining. Previous members are expected to rejoin."""
    COMPLETING_REBALANCE = "CompletingRebalance"
    """All have joined. The leader is expected to send the assignment."""
    STABLE = "Stable"
    """Every member can get its assignment."""
    DEAD = "Dead"
    """Unloaded or deleted; final."""


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
"""The states that may follow a state."""

CAN_REBALANCE = frozenset(
    state
    for state, next_states in MAY_FOLLOW.items()
    if ClassicState.PREPARING_REBALANCE in next_states
)
