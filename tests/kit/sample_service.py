"""A service with a method for everything that may cross the wire; Java and Go call it, too.

The Java and Go sources of the consumers come from `floodmark service stub`.
"""

from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum

from floodmark.service.call import current_call
from floodmark.service.interface import method
from floodmark.service.types import (
    BigInteger,
    Byte,
    Char,
    DoubleArray,
    Float,
    Int,
    IntArray,
    Short,
    StringArray,
)

INTERFACE = "dev.floodmark.sample.Sample"


class Status(Enum):
    OPEN = 1
    PAID = 2
    SENT = 3


@dataclass
class Customer:
    name: str = ""
    birthday: date | None = None
    tags: list[str] = field(default_factory=list)


@dataclass
class Line:
    product: str = ""
    pieces: Int = 0
    unit_price: Decimal = Decimal(0)


@dataclass
class Order:
    id: int = 0
    customer: Customer | None = None
    lines: list[Line] = field(default_factory=list)
    status: Status | None = None
    ordered_at: datetime | None = None
    weight: float = 0.0
    rebate: float = 0.0
    is_gift: bool = False
    remarks: dict[str, str] = field(default_factory=dict)
    pages: IntArray | None = None


@dataclass
class Node:
    name: str = ""
    next: Node | None = None
    others: list[Node] = field(default_factory=list)


class NoSuchOrder(Exception):
    """Declared by `find`, so Java has a class for it."""

    order_id: int

    def __init__(self, order_id: int = 0) -> None:
        super().__init__(f"there is no order {order_id}")
        self.order_id = order_id


ORDER = Order(
    id=7_000_000_000,
    customer=Customer("Žofie 😀", date(1990, 2, 28), ["a", "b"]),
    lines=[Line("tea", 3, Decimal("4.50")), Line("cup", 1, Decimal("12.00"))],
    status=Status.PAID,
    ordered_at=datetime(2026, 11, 17, 12, 30, 0, 250_000, UTC),
    weight=1.5,
    rebate=0.1,
    is_gift=True,
    remarks={"door": "green"},
    pages=[1, 2, 3],
)


class Sample:
    """What consumers call."""

    def __init__(self, greeting: str = "hello") -> None:
        self.greeting = greeting
        self.one_way: list[str] = []
        self.may_go_on = threading.Event()

    @method(inline=True)
    def hello(self, name: str) -> str:
        return f"{self.greeting} {name}"

    async def hello_async(self, name: str) -> str:
        await asyncio.sleep(0)
        return f"{self.greeting} {name}"

    def hello_in_thread(self, name: str) -> str:
        return f"{self.greeting} {name} from {threading.current_thread().name.split('_')[0]}"

    @method(inline=True)
    def text(self, text: str) -> str:
        return text

    @method(inline=True)
    def widths(self, a: Byte, b: Short, c: Int, d: int) -> int:
        return a + b + c + d

    @method(inline=True)
    def next_int(self, a: Int) -> Int:
        return a + 1

    @method(inline=True)
    def next_short(self, a: Short) -> Short:
        return a + 1

    @method(inline=True)
    def previous_byte(self, a: Byte) -> Byte:
        return a - 1

    @method(inline=True)
    def quarter(self, a: Float) -> Float:
        return a / 4

    @method(inline=True)
    def half(self, a: float, b: Float) -> float:
        return (a + b) / 2

    @method(inline=True)
    def negate(self, a: bool) -> bool:
        return not a

    @method(inline=True)
    def letter(self, a: Char) -> Char:
        return a

    @method(inline=True)
    def square(self, a: BigInteger) -> BigInteger:
        return a * a

    @method(inline=True)
    def twice(self, a: Decimal) -> Decimal:
        return a * 2

    @method(inline=True)
    def day_after(self, a: date) -> date:
        return date.fromordinal(a.toordinal() + 1)

    @method(inline=True)
    def same_moment(self, a: datetime) -> datetime:
        return a

    @method(inline=True)
    def sorted(self, items: list[int]) -> list[int]:
        return sorted(items)

    @method(inline=True)
    def merged(self, items: dict[str, float], more: dict[str, float]) -> dict[str, float]:
        return {**items, **more}

    @method(inline=True)
    def unique(self, items: list[str]) -> set[str]:
        return set(items)

    @method(inline=True)
    def summed(self, numbers: IntArray, more: DoubleArray) -> float:
        return sum(numbers) + sum(more)

    @method(inline=True)
    def words(self, text: str) -> StringArray:
        return text.split()

    @method(inline=True)
    def reversed_bytes(self, data: bytes) -> bytes:
        return data[::-1]

    @method(inline=True)
    def nothing(self, text: str | None) -> str | None:
        return None

    @method(inline=True)
    def done(self) -> None:
        return None

    @method(inline=True, raises=(NoSuchOrder,))
    def find(self, order_id: int) -> Order:
        if order_id != ORDER.id:
            raise NoSuchOrder(order_id)
        return ORDER

    @method(inline=True)
    def same(self, order: Order) -> Order:
        return order

    @method(inline=True)
    def next_status(self, status: Status) -> Status:
        return Status(status.value % 3 + 1)

    @method(inline=True)
    def ring(self, size: Int) -> Node:
        first = last = Node("0")
        for number in range(1, size):
            last.next = Node(str(number))
            last = last.next
        last.next = first
        first.others = [first, last]
        return first

    def fails(self, kind: str) -> str:
        errors: dict[str, Exception] = {
            "value": ValueError("not a good value"),
            "other": RuntimeError("it broke"),
            "division": ZeroDivisionError("by zero"),
        }
        raise errors[kind]

    @method(inline=True)
    def unwritable(self) -> str:
        return 1j  # type: ignore[return-value]

    @method(inline=True)
    def record_one_way(self, text: str) -> None:
        self.one_way.append(text)

    @method(inline=True)
    def attachment(self, name: str) -> str | None:
        call = current_call()
        call.response_attachments["answered-by"] = "python"
        value = call.attachments.get(name)
        return None if value is None else str(value)

    async def pause(self, milliseconds: Int) -> str:
        await asyncio.sleep(milliseconds / 1000)
        return "slept"

    def wait(self, text: str) -> str:
        assert self.may_go_on.wait(10)
        return text
