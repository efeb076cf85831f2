"""The examples of docs/services.md run as they stand."""

import json
import re
import sys
from pathlib import Path

import pytest

from kit.exported import FLOODMARK
from kit.process import ServerProcess, free_port
from kit.programs import run_program
from kit.zookeeper import ZooKeeper

PAGE = Path(__file__).parents[2] / "docs" / "services.md"

pytestmark = pytest.mark.java


def test_the_page_s_service_is_exported_and_called(zookeeper: ZooKeeper, tmp_path: Path) -> None:
    orders, from_python = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)[:2]
    (tmp_path / "orders.py").write_text(orders)
    address = f"zookeeper://{zookeeper.hosts}"
    script = from_python.replace("zookeeper://127.0.0.1:2181", address)
    script = script.replace("port=20881", f"port={free_port()}")
    (tmp_path / "both.py").write_text(script)
    assert "Order(id=5" in run_program([sys.executable, "both.py"], cwd=tmp_path)
    registry = ["--registry", address]
    command = [FLOODMARK, "service", "export", "orders:Orders", "--port", str(free_port())]
    log = tmp_path / "log.txt"
    environment = {"PYTHONPATH": str(tmp_path)}
    with ServerProcess([*command, *registry], log, environment) as process:
        process.wait_until(lambda: "is served at" in process.output())
        call = [FLOODMARK, "service", "call", "dev.shop.Orders", "find", "5", "--version", "1.0"]
        assert json.loads(run_program([*call, *registry]))["customer"] == "Ada"
    stub = [FLOODMARK, "service", "stub", "orders:Orders", "--java", "java"]
    assert "java/dev/shop/NoSuchOrder.java" in run_program(stub, cwd=tmp_path)
