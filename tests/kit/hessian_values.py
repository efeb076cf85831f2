"""Values that Hessian2 can carry, and the description that HessianPeer.java gives of them, too."""

from __future__ import annotations

import math
import re
import struct
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

from hypothesis import strategies as st

from floodmark.service.hessian import JavaClasses
from floodmark.service.hessian.classes import Field, java_name
from floodmark.service.hessian.encode import Encoder


class Color(Enum):
    RED = 1
    GREEN = 2
    BLUE = 3


@dataclass
class Item:
    """The same fields in the same order as in HessianPeer.java."""

    small: int = 0
    large: int = 0
    ratio: float = 0.0
    open: bool = False
    name: str | None = None
    color: Color | None = None
    when: datetime | None = None
    price: Decimal | None = None
    next: Item | None = None
    items: list[Any] | None = field(default_factory=list)
    extra: dict[str, Any] | None = field(default_factory=dict)


def classes() -> JavaClasses:
    known = JavaClasses()
    known.add(Color, "HessianPeer$Color")
    writers = {"large": Encoder.write_long}
    known.add(
        Item,
        "HessianPeer$Item",
        [Field(n, java_name(n), writers.get(n), None) for n in Item.__dataclass_fields__],
    )
    return known


class Description:
    """One value as a text."""

    def __init__(self) -> None:
        self._seen: dict[int, int] = {}

    def of(self, value: Any) -> str:
        plain = self._plain(value)
        if plain is not None:
            return plain
        known = self._seen.get(id(value))
        if known is not None:
            return f"@{known}"
        self._seen[id(value)] = len(self._seen)
        if isinstance(value, (list, tuple)):
            return "[" + "".join(f"{self.of(item)}," for item in value) + "]"
        if isinstance(value, dict):
            entries = sorted(((self.of(k), v) for k, v in value.items()), key=_utf16_order)
            return "{" + "".join(f"{k}={self.of(v)}," for k, v in entries) + "}"
        assert isinstance(value, Item), value
        names = Item.__dataclass_fields__
        texts = [
            f"l:{value.large}" if name == "large" else self.of(getattr(value, name))
            for name in names
        ]
        return "o:HessianPeer$Item{" + "".join(f"{text}," for text in texts) + "}"

    def _plain(self, value: Any) -> str | None:
        match value:
            case None:
                return "n"
            case bool():
                return f"b:{str(value).lower()}"
            case int():
                return f"{self._width(value)}:{value}"
            case float():
                if math.isnan(value):
                    return "d:7ff8000000000000"  # Java knows one NaN
                return f"d:{struct.unpack('>Q', struct.pack('>d', value))[0]:x}"
            case str():
                return f"s:{len(value.encode('utf-16-le', 'surrogatepass')) // 2}:{value}"
            case bytes():
                return f"y:{value.hex()}"
            case Decimal():
                return f"D:{value:f}"
            case UUID():
                return f"u:{value}"
            case Color():
                return f"e:{value.name}"
        return self._time(value)

    def _time(self, value: Any) -> str | None:
        match value:
            case datetime(tzinfo=None):
                return str(self._time(value.date())) + str(self._time(value.time()))
            case datetime():
                since = value - datetime(1970, 1, 1, tzinfo=UTC)
                return f"t:{since // timedelta(milliseconds=1)}"
            case date():
                return f"ld:{value.toordinal() - date(1970, 1, 1).toordinal()}"
            case time():
                seconds = (value.hour * 60 + value.minute) * 60 + value.second
                return f"lt:{seconds * 1_000_000 + value.microsecond}"
            case timedelta():
                return f"du:{value.days * 86400 + value.seconds}.{value.microseconds}"
        return None

    def _width(self, value: int) -> str:
        if -(2**31) <= value < 2**31:
            return "i"
        return "l" if -(2**63) <= value < 2**63 else "B"

    @staticmethod
    def without_widths(description: str) -> str:
        """Python's ints have no width; and Java's writer drops the sign of -0.0."""
        description = description.replace("d:8000000000000000", "d:0")
        return re.sub(r"[lB]:(-?\d+)", r"i:\1", description)


def _utf16_order(entry: tuple[str, Any]) -> bytes:
    """Java orders texts by UTF-16 units."""
    return entry[0].encode("utf-16-be", "surrogatepass")


def values(*, uuids: bool = True) -> st.SearchStrategy[Any]:
    """Everything that a service may take and return, nested.

    The reader of Dubbo 2.7 does not count a UUID as an object, though its writer does: references
    behind one point elsewhere. So values for it have none.
    """
    scalars = _scalars() | st.uuids() if uuids else _scalars()
    return st.recursive(scalars, _containers, max_leaves=30)


def _scalars() -> st.SearchStrategy[Any]:
    texts = st.text(max_size=50) | st.text(st.characters(min_codepoint=0x10000), max_size=8)
    return st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**31), 2**31 - 1),
        st.integers(-(2**200), 2**200),
        st.floats(),
        st.sampled_from([-0.0, 127.0, -128.0, 32767.0, 0.001, 65536.5]),
        texts,
        st.sampled_from([700, 32768, 32769, 70000]).map(lambda size: "ä😀b" * (size // 4)),
        st.binary(max_size=50),
        st.sampled_from([1023, 1024, 32768, 32769, 70000]).map(bytes),
        st.datetimes(datetime(1, 1, 2), datetime(9999, 1, 1)).map(_to_the_millisecond),
        st.dates(),
        st.times(),
        st.timedeltas(),
        st.decimals(allow_nan=False, allow_infinity=False),
        st.sampled_from(Color),
    )


def _to_the_millisecond(moment: datetime) -> datetime:
    return moment.replace(microsecond=moment.microsecond // 1000 * 1000, tzinfo=UTC)


def _containers(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    keys = st.text(max_size=8) | st.integers(-(2**31), 2**31 - 1)
    return st.one_of(
        st.lists(inner, max_size=12),
        st.dictionaries(keys, inner, max_size=5),
        st.builds(
            Item,
            small=st.integers(-(2**31), 2**31 - 1),
            large=st.integers(-(2**63), 2**63 - 1),
            ratio=st.floats(allow_nan=False),
            name=st.none() | st.text(max_size=10),
            color=st.none() | st.sampled_from(Color),
            price=st.none() | st.decimals(allow_nan=False, allow_infinity=False),
            items=st.lists(inner, max_size=3),
            extra=st.dictionaries(st.text(max_size=4), inner, max_size=3),
        ).map(_with_cycle),
    )


def _with_cycle(item: Item) -> Item:
    if item.open is False and len(item.items or []) % 2:
        item.next = item
    return item
