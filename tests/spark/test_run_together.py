"""Two pipelines in one Spark, as `floodmark pipeline run A B`: watched, stopped, and told about."""

import json
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from kit.broker import Broker
from kit.pipeline_process import PipelineProcess
from kit.process import free_port
from kit.tools import require_tool
from kit.topics import fill_topic, make_topic, read_topic
from kit.waiting import wait_for

PIPELINE = """
from floodmark.pipeline import Pipeline

pipeline = Pipeline("{name}")
pipeline.source("lines", topic="{topic}-in", format="raw")


@pipeline.sink(topic="{topic}-out", format="raw")
def copy(lines):
    return lines.select("key", "value")
"""


@pytest.mark.timeout(300)
def test_two_pipelines_share_a_spark_and_are_watched_and_stopped_together(
    broker: Broker, topic: str, tmp_path: Path
) -> None:
    require_tool("java")
    files = []
    for name in ("first", "second"):
        own = f"{topic}-{name}"
        make_topic(broker.bootstrap, f"{own}-in")
        make_topic(broker.bootstrap, f"{own}-out")
        fill_topic(broker.bootstrap, f"{own}-in", [(None, name.encode())] * 3)
        (tmp_path / f"{name}.py").write_text(PIPELINE.format(name=name, topic=own))
        files.append(str(tmp_path / f"{name}.py"))
    port = free_port()
    options = ["--bootstrap-server", broker.bootstrap, "--checkpoints", str(tmp_path / "c")]
    options += ["--metrics-port", str(port), "--ui"]
    with PipelineProcess([*files, *options], tmp_path / "out") as process:
        wanted = [
            f'floodmark_pipeline_output_rows_total{{output="copy",pipeline="{name}"}} 3.0'
            for name in ("first", "second")
        ]

        def both_are_counted() -> bool:
            assert process.is_running(), process.output()
            return all(line in scraped(port) for line in wanted)

        wait_for(both_are_counted, 240)
        assert 'floodmark_pipeline_up{pipeline="second"} 1.0' in scraped(port)
        running = status(tmp_path)
        process.interrupt()
        assert process.wait(120) == 0, process.output()
    assert "Spark's web UI: http://" in process.output()
    assert "second.copy: batch 0, 3 rows in" in process.output()
    for name in ("first", "second"):
        records = read_topic(broker.bootstrap, f"{topic}-{name}-out")
        assert [record.value for record in records] == [name.encode()] * 3
    assert [row["state"] for row in running] == ["running", "running"]
    stopped = status(tmp_path)
    assert [(row["pipeline"], row["state"], row["lag"]) for row in stopped] == [
        ("first", "stopped", 0),
        ("second", "stopped", 0),
    ]


def scraped(port: int) -> list[str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as response:
            return response.read().decode().splitlines()
    except OSError:
        return []


def status(folder: Path) -> list[dict[str, object]]:
    command = [str(Path(sys.executable).with_name("floodmark")), "pipeline", "status", "-o", "json"]
    outcome = subprocess.run(
        [*command, "--checkpoints", str(folder / "c")],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    found: list[dict[str, object]] = json.loads(outcome.stdout)
    return found
