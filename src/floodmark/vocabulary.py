"""Words that every room of the broker uses: the name of a partition, and "there is none".

The client has a `TopicPartition` of its own, a named tuple for its users; the two are equal.
"""

from __future__ import annotations

from typing import Final, TypeAlias
from uuid import UUID

TopicPartition: TypeAlias = tuple[str, int]
"""A plain tuple, because the hot path makes them."""

TopicIdPartition: TypeAlias = tuple[UUID, int]
"""A partition by the id of its topic: that of a topic that was made again is another one."""

NO_LEADER: Final = -1
NO_LEADER_EPOCH: Final = -1
NO_OFFSET: Final = -1
NO_PRODUCER_EPOCH: Final = -1
NO_PRODUCER_ID: Final = -1
NO_SEQUENCE: Final = -1
NO_TIMESTAMP: Final = -1
