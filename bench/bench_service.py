"""The service that bench/services.py measures: hello, a row of 14 fields, a scan of 100 of them.

Rows are kept encoded, as a Table keeps them. `python bench_service.py PORT`.
"""

import asyncio
import sys
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import uvloop

from floodmark.service import Services, method
from floodmark.service.api import settings_of
from floodmark.service.interface import Interface
from floodmark.service.table import StoredRows, Table, TableService, table_interface

INTERFACE = "dev.floodmark.bench.Bench"


@dataclass
class Row:
    id: int
    customer: str
    city: str
    street: str
    zip: str
    country: str
    status: str
    quantity: int
    price: float
    tax: float
    total: float
    ordered_at: datetime
    gift: bool
    remark: str


class Bench(TableService):
    """A table's methods, and hello."""

    @method(inline=True)
    def hello(self, name: str) -> str:
        return f"hello {name}"


def bench_interface() -> tuple[Interface, "Bench"]:
    table = Table("bench", row=Row, interface=INTERFACE)
    interface, rows = table_interface(table, Bench)
    for name in ("size", "offset"):
        del interface.methods[name]
    stored = StoredRows()
    start = datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)
    for i in range(100):
        row = Row(
            1_000_000 + i,
            f"customer {i}",
            f"city of {i}",
            f"street {i}",
            f"zip{i}",
            "CZ",
            "PAID",
            i,
            i * 1.25,
            0.21,
            i * 1.5125,
            start + timedelta(milliseconds=i),
            i % 2 == 0,
            f"a remark about order number {i}",
        )
        stored.put(str(i), rows.encode(row), 0, i)
    return interface, Bench("bench", stored, rows)


async def serve(port: int) -> None:
    interface, bench = bench_interface()
    async with Services() as services:
        settings = settings_of(Bench, interface=INTERFACE, port=port)
        await services.export(bench, settings, interface)
        print("ready", flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve(int(sys.argv[1])))
