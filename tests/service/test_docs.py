"""The examples of docs/services.md run as they stand."""

import json
import re
import sys
from pathlib import Path

import pytest

from kit.exported import FLOODMARK
from kit.jars import classpath
from kit.process import ServerProcess, free_port
from kit.programs import run_program
from kit.services_page import PAGE, page_jars, page_program
from kit.zookeeper import ZooKeeper

MENTIONED = "zookeeper://127.0.0.1:2181"

pytestmark = pytest.mark.java


def test_the_page_s_service_is_exported_and_called(zookeeper: ZooKeeper, tmp_path: Path) -> None:
    orders, from_python = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)[:2]
    (tmp_path / "orders.py").write_text(orders)
    address = f"zookeeper://{zookeeper.hosts}"
    script = from_python.replace(MENTIONED, address)
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
        program = compiled_page(tmp_path, page_program().replace(MENTIONED, address))
        assert "customer Ada" in run_program(program, cwd=tmp_path)


def compiled_page(folder: Path, program: str) -> list[str]:
    """The page's Java code on the stub and the dependencies of the page; returns how to run it."""
    stub = [FLOODMARK, "service", "stub", "orders:Orders", "--java", "java"]
    assert "java/dev/shop/NoSuchOrder.java" in run_program(stub, cwd=folder)
    (folder / "java" / "Page.java").write_text(program)
    jars = classpath(page_jars())
    sources = [str(path) for path in (folder / "java").rglob("*.java")]
    run_program(["javac", "-nowarn", "-cp", jars, "-d", str(folder / "classes"), *sources])
    home = f"-Duser.home={folder}"  # where Dubbo keeps its caches
    return ["java", home, "-cp", f"{folder / 'classes'}:{jars}", "Page"]
