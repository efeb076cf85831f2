"""The two kinds of group in a shard. PURE. Used by all modules that take the shard's groups."""

from __future__ import annotations

from typing import TypeAlias

from floodmark.coordinators.groups.classic_group import ClassicGroup
from floodmark.coordinators.groups.consumer_group import ConsumerGroup

Group: TypeAlias = ClassicGroup | ConsumerGroup
Groups: TypeAlias = dict[str, Group]
"""By their ids."""
