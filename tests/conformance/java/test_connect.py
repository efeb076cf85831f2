"""A Kafka Connect worker in distributed mode carries a file through the broker into another."""

from pathlib import Path

import pytest

from conformance_kit.connect import Worker, connect_worker
from kit.broker import Broker
from kit.waiting import wait_for

pytestmark = [pytest.mark.java, pytest.mark.timeout(240)]

_CONNECTORS = "org.apache.kafka.connect.file.FileStream"


def test_a_worker_moves_lines_exactly_once_across_a_restart(
    broker: Broker, topic: str, tmp_path: Path
) -> None:
    source, sink = tmp_path / "source.txt", tmp_path / "sink.txt"
    source.write_text("".join(f"line {number}\n" for number in range(100)))
    with connect_worker(broker.bootstrap, tmp_path, topic) as worker:
        start(worker, "source", {"topic": topic, "file": str(source)})
        start(worker, "sink", {"topics": topic, "file": str(sink)})
        wait_for(lambda: lines(sink) == lines(source))
    with source.open("a") as grown:
        grown.writelines(f"line {number}\n" for number in range(100, 200))
    with connect_worker(broker.bootstrap, tmp_path, topic) as worker:
        wait_for(lambda: worker.runs("source") and worker.runs("sink"))
        wait_for(lambda: lines(sink) == lines(source))
        worker.delete("source")
        worker.delete("sink")
    assert lines(sink) == [f"line {number}" for number in range(200)]


def start(worker: Worker, name: str, settings: dict[str, str]) -> None:
    plugin = f"{_CONNECTORS}{name.capitalize()}Connector"
    worker.put(name, {"connector.class": plugin, "tasks.max": "1"} | settings)
    wait_for(lambda: worker.runs(name))


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []
