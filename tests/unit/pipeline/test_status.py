"""What is shown of a pipeline: its state, its outputs, and how far behind they are."""

import asyncio
from pathlib import Path

from floodmark.clock import SystemClock
from floodmark.pipeline.authoring.checkpoints import Checkpoint
from floodmark.pipeline.authoring.run_records import RunRecorder
from floodmark.pipeline.authoring.status import status_of
from floodmark.testing import Broker
from kit.process import free_port
from kit.topics import fill_topic


def written(folder: Path, output: str, batch: int) -> None:
    """A query's folder as Spark leaves it after a batch."""
    for name, text in {
        "metadata": "{}",
        f"offsets/{batch}": 'v1\n{}\n{"orders":{"0":7}}\n',
        f"commits/{batch}": "v1\n{}\n",
    }.items():
        path = folder / output / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def test_the_checkpoint_is_shown_without_the_lag_when_no_broker_answers(tmp_path: Path) -> None:
    written(tmp_path, "revenue", 3)
    written(tmp_path, "table", 5)
    checkpoint = Checkpoint(tmp_path, "shop", "id", f"127.0.0.1:{free_port()}")
    shown = asyncio.run(status_of(checkpoint))
    assert [(row.output, row.batch, row.lag, row.group) for row in shown] == [
        ("revenue", 3, None, "shop.revenue"),
        ("table", 5, None, "shop.table"),
    ]


def test_a_removed_output_is_forgotten_by_the_next_run(tmp_path: Path) -> None:
    written(tmp_path, "revenue", 3)
    written(tmp_path, "removed", 5)
    checkpoint = Checkpoint(tmp_path, "shop", "id", f"127.0.0.1:{free_port()}")
    RunRecorder(tmp_path).started(["revenue"])
    shown = asyncio.run(status_of(checkpoint))
    assert [(row.output, row.state) for row in shown] == [("revenue", "running")]


def test_a_failed_run_tells_its_error_and_since_when(tmp_path: Path) -> None:
    written(tmp_path, "revenue", 3)
    checkpoint = Checkpoint(tmp_path, "shop", "id", f"127.0.0.1:{free_port()}")
    recorder = RunRecorder(tmp_path)
    recorder.started(["revenue"])
    recorder.ended("revenue has failed: no such topic")
    (row,) = asyncio.run(status_of(checkpoint))
    assert (row.state, row.error) == ("failed", "revenue has failed: no such topic")
    assert row.since is not None
    assert row.rows_in_per_second is None


def test_the_lag_is_told_in_records_and_in_seconds(tmp_path: Path, floodmark: Broker) -> None:
    floodmark.create_topic("orders")
    now_ms = SystemClock().now_ms()
    servers = floodmark.bootstrap_servers
    fill_topic(servers, "orders", [(None, b"x")] * 7, timestamp_ms=now_ms - 500_000)
    fill_topic(servers, "orders", [(None, b"x")] * 3, timestamp_ms=now_ms - 60_000)
    written(tmp_path, "revenue", 3)  # at offset 7
    (row,) = asyncio.run(status_of(Checkpoint(tmp_path, "shop", "id", servers)))
    assert row.lag == 3
    assert 60.0 <= (row.lag_seconds or 0) < 200.0
