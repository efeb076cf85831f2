"""Types and constants that the whole broker shares: the name of a partition, and "none" values.

The client has its own `TopicPartition`, a named tuple for its users. The two compare equal.
"""

from __future__ import annotations

from typing import Final, TypeAlias
from uuid import UUID

TopicPartition: TypeAlias = tuple[str, int]
"""A plain tuple, because the hot path creates them."""

TopicIdPartition: TypeAlias = tuple[UUID, int]
"""A partition by topic id. A recreated topic has a new id."""

NO_BROKER_EPOCH: Final = -1
NO_LEADER: Final = -1
NO_LEADER_EPOCH: Final = -1
NO_OFFSET: Final = -1
NO_PRODUCER_EPOCH: Final = -1
NO_PRODUCER_ID: Final = -1
NO_SEQUENCE: Final = -1
NO_TIMESTAMP: Final = -1
