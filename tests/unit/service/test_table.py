"""A compacted topic as a service: rows, deletions, broken records, and lag."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from typing import Any

import pytest

from floodmark.client import NewTopic, Producer
from floodmark.client.admin.admin import Admin
from floodmark.service.consumer import Consumer
from floodmark.service.errors import ConfigError, ServiceError
from floodmark.service.hessian import loads
from floodmark.service.rows import Rows
from floodmark.service.table import ServedTable, Table, table_interface
from kit.process import free_port
from kit.waiting import eventually


class Size(Enum):
    SMALL = "S"
    LARGE = "L"


@dataclass
class Detail:
    price: Decimal
    size: Size


@dataclass
class Row:
    category: str
    revenue: float = 0.0
    orders: int = 0
    detail: Detail | None = None
    sizes: list[Size] | None = None


TABLE = Table("revenue", row=Row, key="category", interface="dev.shop.RevenueTable")


def test_rows_mean_the_same_wherever_they_stand() -> None:
    interface, rows = table_interface(TABLE)
    made = [
        Row("a", 1.5, 1),
        Row("b", 2.5, 2, Detail(Decimal("1.50"), Size.SMALL), [Size.SMALL, Size.SMALL]),
        Row("c", 0.0, 3, Detail(Decimal("2.00"), Size.LARGE), [Size.LARGE]),
    ]
    encoded = [rows.encode(row) for row in made]
    for order in ([0, 1, 2], [2, 1, 0], [1], [1, 1, 2, 2, 0] * 20, []):
        value = loads(rows.many([encoded[i] for i in order]).data, interface.classes)
        assert value == [made[i] for i in order]
    assert loads(rows.one(encoded[1]).data, interface.classes) == made[1]


def test_a_row_that_cannot_be_encoded_leaves_the_others_right() -> None:
    interface, rows = table_interface(TABLE)
    assert isinstance(rows, Rows)
    with pytest.raises(ValueError):
        rows.encode(Row("a", "no number", 1))  # type: ignore[arg-type]
    row = Row("b", 2.5, 2, Detail(Decimal("1.50"), Size.SMALL))
    assert loads(rows.one(rows.encode(row)).data, interface.classes) == row


async def produce(bootstrap: str, records: list[tuple[str, Any]]) -> None:
    async with Producer(bootstrap) as producer:
        for key, value in records:
            data = value if isinstance(value, (bytes, type(None))) else json.dumps(value).encode()
            await producer.send_and_wait("revenue", key=key.encode(), value=data)


async def created(bootstrap: str) -> None:
    async with Admin(bootstrap) as admin:
        await admin.create_topics([NewTopic("revenue", 2)])


def served(bootstrap: str, **options: Any) -> ServedTable:
    return TABLE.serve(bootstrap, port=free_port(), **options)


async def test_rows_are_looked_up_scanned_and_follow_the_topic(floodmark: Any) -> None:
    bootstrap = floodmark.bootstrap_servers
    await created(bootstrap)
    await produce(
        bootstrap,
        [(k, {"revenue": i + 0.5, "orders": i}) for i, k in enumerate("cabd")]
        + [
            ("a", {"revenue": 9.5, "orders": 9}),
            ("d", None),
            ("x", b"no json"),
            ("y", {"orders": "z"}),
            ("z", b'{"orders": ' + b"[" * 100_000),
        ],
    )
    async with served(bootstrap) as table, Consumer() as consumer:
        url = f"dubbo://127.0.0.1:{table.export.urls[0].port}/dev.shop.RevenueTable"
        reference = await consumer.generic("dev.shop.RevenueTable", url=url, timeout_ms=5000)
        row = await reference.invoke("get", ["a"])
        assert (row["category"], row["revenue"], row["class"]) == ("a", 9.5, "dev.shop.Row")
        assert await reference.invoke("get", ["nowhere"]) is None
        rows = await reference.invoke("scan", [None, 10])
        assert [item["category"] for item in rows] == ["a", "b", "c"]
        rows = await reference.invoke("scan", ["a", 1])
        assert [item["category"] for item in rows] == ["b"]
        assert await reference.invoke("size", []) == 3
        assert table.broken_rows == 3
        await produce(bootstrap, [("aa", {"orders": 1}), ("b", None)])
        await eventually(lambda: table.stored.keys == ["a", "aa", "c"])
        total = await reference.invoke("offset", [0]) + await reference.invoke("offset", [1])
        assert total == 11


async def test_answers_carry_topic_partition_and_offset(floodmark: Any) -> None:
    bootstrap = floodmark.bootstrap_servers
    await created(bootstrap)
    await produce(bootstrap, [("a", {"orders": 1})])
    async with served(bootstrap) as table:
        from floodmark.service.dubbo.client import DubboClient

        client = await DubboClient.connect("127.0.0.1", table.export.urls[0].port)
        method = table.interface.methods["get"]
        outcome = await client.call(
            "dev.shop.RevenueTable",
            "",
            "get",
            method.descriptor,
            [(method.parameters[0].type.write, "a")],
            {},
            table.interface.classes,
            5,
        )
        assert outcome.value == Row("a", 0.0, 1)
        assert outcome.attachments["topic"] == "revenue"
        assert (outcome.attachments["partition"], outcome.attachments["offset"]) in {
            ("0", "0"),
            ("1", "0"),
        }
        client.close()


async def test_a_lagging_table_is_withdrawn_until_it_has_caught_up(floodmark: Any) -> None:
    bootstrap = floodmark.bootstrap_servers
    await created(bootstrap)
    async with served(bootstrap) as table:
        withdrawn, back = asyncio.Event(), asyncio.Event()

        class Watched:
            async def withdraw(self) -> None:
                withdrawn.set()

            async def put_back(self) -> None:
                back.set()

        table._export = Watched()  # type: ignore[assignment]
        lags = iter([99_999, 5])
        consumer: Any = table._consumer
        real = consumer.lag
        consumer.lag = lambda partition: next(lags, None) or real(partition)
        await asyncio.wait_for(withdrawn.wait(), 10)
        await asyncio.wait_for(back.wait(), 10)


async def test_a_table_that_cannot_follow_its_topic_is_withdrawn(
    floodmark: Any, caplog: pytest.LogCaptureFixture
) -> None:
    bootstrap = floodmark.bootstrap_servers
    await created(bootstrap)
    async with served(bootstrap) as table:

        async def broken(_timeout_ms: float) -> None:
            raise RuntimeError("a mistake of ours")

        consumer: Any = table._consumer
        consumer.poll = broken
        await eventually(lambda: not table.is_registered)
    assert "is withdrawn: it ended with RuntimeError('a mistake of ours')" in caplog.text


async def test_a_recreated_topic_leaves_none_of_its_old_rows(
    floodmark: Any, caplog: pytest.LogCaptureFixture
) -> None:
    bootstrap = floodmark.bootstrap_servers
    await created(bootstrap)
    await produce(bootstrap, [(key, {"orders": 1}) for key in "abc"])
    async with served(bootstrap) as table:
        assert table.stored.keys == ["a", "b", "c"]
        async with Admin(bootstrap) as admin:
            await admin.delete_topics(["revenue"])
        await created(bootstrap)
        await produce(bootstrap, [(key, {"orders": 2}) for key in "bx"])
        await eventually(lambda: table.stored.keys == ["b", "x"])
    assert "topic revenue was recreated: its table starts over" in caplog.text


async def test_added_partitions_belong_to_the_table(floodmark: Any) -> None:
    bootstrap = floodmark.bootstrap_servers
    await created(bootstrap)
    async with served(bootstrap) as table:
        async with Admin(bootstrap) as admin:
            await admin.add_partitions({"revenue": 8})
        await produce(bootstrap, [(str(number), {"orders": 1}) for number in range(40)])
        consumer: Any = table._consumer
        await consumer.cluster.refresh()
        await eventually(lambda: len(table.stored.keys) == 40)


async def test_without_a_broker_there_is_an_error() -> None:
    with pytest.raises(ServiceError, match="topic revenue could not be read"):
        async with served(f"127.0.0.1:{free_port()}"):
            pass


def test_declarations_are_checked() -> None:
    with pytest.raises(ConfigError, match="must be a dataclass"):
        Table("t", row=dict, interface="dev.T")
    with pytest.raises(ConfigError, match="no field 'other'"):
        Table("t", row=Row, key="other", interface="dev.T")
