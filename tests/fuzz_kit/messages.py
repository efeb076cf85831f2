"""Random but valid messages, made from the wire's definitions.

Much faster than hypothesis, which is what 200,000 requests need. Fields whose wildest values would
only fill the disk, keep a connection waiting for days or end at the first check are filled from
`pools`, by their name.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any
from uuid import UUID

from floodmark.wire.schema import ZERO_UUID, Field, schema_of
from fuzz_kit.batches import random_batch
from fuzz_kit.pools import ARRAY_SIZES, BYTES_POOLS, NUMBER_POOLS, STRING_POOLS, STRINGS

INTEGER_BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
UNSIGNED_BITS = {"uint16": 16, "uint32": 32}


class MessageMaker:
    """One per worker; `topic_ids` are those of topics that exist, for some requests to find."""

    def __init__(
        self,
        random: Random,
        topic_ids: Sequence[UUID] = (),
        *,
        array_sizes: Sequence[int] | None = None,
        null_share: float = 0.15,
    ) -> None:
        self._random = random
        self._topic_ids = topic_ids
        self._usual_sizes = array_sizes or (0, 1, 1, 1, 2, 3)
        self._array_sizes = {} if array_sizes else ARRAY_SIZES
        self._null_share = null_share

    def make(self, cls: type, version: int) -> Any:
        """A message that sets only fields of this version."""
        fields = (field for field in schema_of(cls).fields if field.exists_in(version))
        return cls(**{field.name: self._value(cls.__name__, field, version) for field in fields})

    def _value(self, owner: str, field: Field, version: int) -> Any:
        random = self._random
        if field.nullable_in(version) and random.random() < self._null_share:
            return None
        if field.kind == "struct":
            return self.make(field.element, version)
        if field.kind == "array":
            return self._array(owner, field, version)
        return self._scalar(owner, field.kind, field.name)

    def _array(self, owner: str, field: Field, version: int) -> list[Any]:
        size = self._random.choice(self._array_sizes.get(field.name, self._usual_sizes))
        return self.entries(owner, field, version, size)

    def entries(self, owner: str, field: Field, version: int, count: int) -> list[Any]:
        """So many entries for an array field of a message or a part of one."""
        if isinstance(field.element, str):
            return [self._scalar(owner, field.element, field.name) for _ in range(count)]
        return [self.make(field.element, version) for _ in range(count)]

    def _scalar(self, owner: str, kind: str, name: str) -> Any:
        random = self._random
        if kind == "string":
            pool = STRING_POOLS.get(f"{owner}.{name}") or STRING_POOLS.get(name, STRINGS)
            return random.choice(pool)
        if kind in INTEGER_BITS:
            numbers = NUMBER_POOLS.get(f"{owner}.{name}") or NUMBER_POOLS.get(name)
            return random.choice(numbers) if numbers else self._integer(INTEGER_BITS[kind])
        if kind in UNSIGNED_BITS:
            return random.getrandbits(UNSIGNED_BITS[kind])
        if kind == "records":
            return random_batch(random)
        if kind == "bool":
            return random.random() < 0.5
        if kind == "bytes" and name in BYTES_POOLS:
            return random.choice(BYTES_POOLS[name])
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
        choice = self._random.random()
        if self._topic_ids and choice < 0.7:
            return self._random.choice(self._topic_ids)
        return ZERO_UUID if choice > 0.9 else UUID(int=self._random.getrandbits(128))
