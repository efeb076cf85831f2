"""The Java program that `floodmark demo` builds with Maven, here built with the tests' jars."""

import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from floodmark.cli.demo_java import _write_project
from floodmark.service.api import settings_of
from floodmark.service.interface import Interface
from floodmark.service.provider import Services
from floodmark.service.table import StoredRows, Table, TableService, table_interface
from kit.dubbo_jars import DUBBO_3, dubbo_jars
from kit.dubbo_program import command
from kit.jars import classpath
from kit.process import free_port
from kit.running import run

pytestmark = pytest.mark.java

INTERFACE = "dev.floodmark.shop.RevenueTable"


@dataclass
class Revenue:
    category: str
    unit_price: float | None = None
    orders: int = 0


def built_program(folder: Path, interface: Interface) -> Path:
    _write_project(folder, interface, ["category", "unit_price", "orders"])
    sources = [str(path) for path in folder.rglob("*.java")]
    classes = folder / "classes"
    jars = classpath(dubbo_jars(DUBBO_3))
    subprocess.run(["javac", "-nowarn", "-cp", jars, "-d", str(classes), *sources], check=True)
    return classes


async def test_java_prints_the_rows_of_the_demo_s_table(namespace: None, tmp_path: Path) -> None:
    interface, rows = table_interface(Table("revenue", row=Revenue, interface=INTERFACE))
    stored = StoredRows()
    stored.put("tea", rows.encode(Revenue("tea", 1.5, 2)), 0, 1)
    stored.put("cup", rows.encode(Revenue("cup", None, 7_000_000_000)), 0, 2)
    classes = built_program(tmp_path, interface)
    async with Services() as services:
        settings = settings_of(TableService, interface=INTERFACE, port=free_port())
        service = TableService("revenue", stored, rows)
        export = await services.export(service, settings, interface)
        url = f"dubbo://127.0.0.1:{export.urls[0].port}/{INTERFACE}"
        output = await run(command(DUBBO_3, classes, "Demo", [url]))
    assert output.splitlines()[-2:] == ["cup\tnull\t7000000000", "tea\t1.5\t2"]
