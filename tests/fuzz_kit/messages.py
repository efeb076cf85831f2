"""Random but valid messages, made from the wire's definitions.

Much faster than hypothesis, which is what 200,000 requests need. Fields whose wildest values would
only fill the disk or keep a connection waiting for days (counts, waits) are tamed by name.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any
from uuid import UUID

from floodmark.wire.schema import Field, schema_of
from fuzz_kit.batches import random_batch

INTEGER_BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
UNSIGNED_BITS = {"uint16": 16, "uint32": 32}

TOPICS = ("fuzz-0", "fuzz-1", "fuzz-2", "no-such-topic", "", ".", "..", "bad name!", "x" * 300, "ü")
STRINGS = ("", "a", "group-1", "漢字", "retention.ms", "cleanup.policy", "compact", "x" * 126, "0")
TOPIC_FIELDS = frozenset({"name", "topic", "topic_name", "resource_name", "topic_names"})

TAMED: dict[str, tuple[int, ...]] = {
    "num_partitions": (-1, 0, 1, 2, -5),
    "count": (-1, 0, 1, 2, 3),
    "replication_factor": (-1, 0, 1, 2, 32767),
    "timeout_ms": (-1, 0, 1, 30),
    "max_wait_ms": (-1, 0, 1, 30),
    "partition": (0, 1, -1, 99, 2**31 - 1),
    "partition_index": (0, 1, -1, 99, 2**31 - 1),
    "index": (0, 1, -1, 99, 2**31 - 1),
    "acks": (-1, 0, 1, 2),
    "session_timeout_ms": (-1, 0, 6000),
    "rebalance_timeout_ms": (-1, 0, 30),
}
"""Waits are short, so that a connection that waits for its answer does not stop the run."""


class MessageMaker:
    """One per worker; `topic_ids` are those of topics that exist, for some requests to find."""

    def __init__(
        self,
        random: Random,
        topic_ids: Sequence[UUID] = (),
        *,
        array_sizes: Sequence[int] = (0, 1, 1, 1, 2, 3),
        null_share: float = 0.15,
    ) -> None:
        self._random = random
        self._topic_ids = topic_ids
        self._array_sizes = array_sizes
        self._null_share = null_share

    def make(self, cls: type, version: int) -> Any:
        """A message that sets only fields of this version."""
        fields = (field for field in schema_of(cls).fields if field.exists_in(version))
        return cls(**{field.name: self._value(field, version) for field in fields})

    def _value(self, field: Field, version: int) -> Any:
        random = self._random
        if field.nullable_in(version) and random.random() < self._null_share:
            return None
        if field.kind == "struct":
            return self.make(field.element, version)
        if field.kind == "array":
            return self._array(field, version)
        return self._scalar(field.kind, field.name)

    def _array(self, field: Field, version: int) -> list[Any]:
        size = self._random.choice(self._array_sizes)
        if isinstance(field.element, str):
            return [self._scalar(field.element, field.name) for _ in range(size)]
        return [self.make(field.element, version) for _ in range(size)]

    def _scalar(self, kind: str, name: str) -> Any:
        random = self._random
        if kind == "string":
            return random.choice(TOPICS if name in TOPIC_FIELDS else STRINGS)
        if name in TAMED:
            return random.choice(TAMED[name])
        if kind in INTEGER_BITS:
            return self._integer(INTEGER_BITS[kind])
        if kind in UNSIGNED_BITS:
            return random.getrandbits(UNSIGNED_BITS[kind])
        if kind == "records":
            return random_batch(random)
        if kind == "bool":
            return random.random() < 0.5
        if kind == "bytes":
            return random.randbytes(random.choice((0, 1, 20)))
        if kind == "uuid":
            return self._uuid()
        return random.uniform(-1e9, 1e9)

    def _integer(self, bits: int) -> int:
        """Small ones are what code branches on; the rest are the edges and anything at all."""
        random = self._random
        choice = random.random()
        if choice < 0.7:
            return random.randrange(-2, 12)
        edge = 1 << (bits - 1)
        if choice < 0.85:
            return random.choice((-edge, edge - 1))
        return random.randrange(-edge, edge)

    def _uuid(self) -> UUID:
        if self._topic_ids and self._random.random() < 0.7:
            return self._random.choice(self._topic_ids)
        return UUID(int=self._random.getrandbits(128))
