"""What a broker once did when a small file of its data folder was lost, broken or misplaced."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from floodmark.metadata.embedded import FILE_NAME
from floodmark.records.record import Record, encode_batch
from floodmark.replication.outcomes import ACKS_ALL
from floodmark.testing.broker_thread import BrokerThread
from floodmark.wire.errors import ErrorCode
from kit.broker import start_floodmark, up_command
from kit.process import free_port
from kit.waiting import wait_for

START_S = 60


async def append(floodmark: BrokerThread, topic: str) -> ErrorCode:
    batch = bytes(encode_batch([Record(0, 1, b"k", b"v", [])]))
    return floodmark.broker.replicas.append((topic, 0), batch, ACKS_ALL).error_code


def filled(folder: Path) -> str:
    """A stopped broker's folder with two topics of one record; its cluster id."""
    with BrokerThread(folder) as floodmark:
        for topic in ("t", "u"):
            floodmark.create_topic(topic)
            assert floodmark.call(append(floodmark, topic)) is ErrorCode.NONE
        return floodmark.broker.metadata.image.cluster_id


def ends(floodmark: BrokerThread) -> dict[str, int]:
    return {r.key[0]: r.log.log_end_offset for r in floodmark.broker.replicas.replicas}


@pytest.mark.parametrize("content", [None, b"", b"#\n"])
def test_a_folder_whose_owner_is_not_known_any_more_is_that_of_the_metadata(
    tmp_path: Path, content: bytes | None
) -> None:
    cluster_id = filled(tmp_path)
    owner = tmp_path / "meta.properties"
    owner.unlink()
    if content is not None:
        owner.write_bytes(content)
    with BrokerThread(tmp_path) as floodmark:
        assert floodmark.broker.metadata.image.cluster_id == cluster_id
        assert ends(floodmark) == {"t": 1, "u": 1}
    assert f"cluster.id={cluster_id}" in owner.read_text()


def test_a_broker_that_has_changed_its_id_says_why_it_serves_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    filled(tmp_path)
    owner = tmp_path / "meta.properties"
    owner.write_text(owner.read_text().replace("broker.id=1", "broker.id=7"))
    with BrokerThread(tmp_path) as floodmark:
        assert ends(floodmark) == {}
    assert "found partitions of broker 1, but this is broker 7" in caplog.text


def test_a_misplaced_file_costs_its_partition_and_no_other(tmp_path: Path) -> None:
    filled(tmp_path)
    shutil.rmtree(tmp_path / "t-0")
    (tmp_path / "t-0").write_text("not a folder")
    with BrokerThread(tmp_path) as floodmark:
        assert floodmark.broker.replicas.offline == {("t", 0)}
        assert ends(floodmark) == {"u": 1}


def garbage(file: Path) -> None:
    file.write_bytes(b"garbage" * 1000)


def newer(file: Path) -> None:
    connection = sqlite3.connect(file)
    connection.execute("PRAGMA user_version=99")
    connection.close()


def broken_node(file: Path) -> None:
    connection = sqlite3.connect(file)
    with connection:
        connection.execute("UPDATE node SET data = x'7b7b' WHERE path = '/brokers/topics/t'")
    connection.close()


def broken_epoch(file: Path) -> None:
    connection = sqlite3.connect(file)
    with connection:
        connection.execute("UPDATE node SET data = x'7b7b' WHERE path = '/controller_epoch'")
    connection.close()


def misshapen_node(file: Path) -> None:
    connection = sqlite3.connect(file)
    with connection:
        connection.execute("UPDATE node SET data = x'5b5d' WHERE path = '/brokers/topics/t'")
    connection.close()


def misplaced(file: Path) -> None:
    file.unlink()
    file.mkdir()


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        (garbage, "not a database"),
        (newer, "format 99"),
        (broken_node, "a node is malformed"),
        (broken_epoch, "a node is malformed"),
        (misshapen_node, "a node is malformed"),
        (misplaced, "check that the broker may write there"),
    ],
)
def test_a_broken_metadata_file_is_told_of_and_left_alone(
    tmp_path: Path, damage: Callable[[Path], None], why: str
) -> None:
    filled(tmp_path)
    damage(tmp_path / FILE_NAME)
    command = up_command(free_port(), tmp_path)
    ended = subprocess.run(command, capture_output=True, text=True, timeout=START_S, check=False)
    assert ended.returncode == 1
    assert "Traceback" not in ended.stderr
    assert "metadata" in ended.stderr
    assert why in ended.stderr
    assert (tmp_path / ".kafka_cleanshutdown").exists()


def test_a_broker_whose_last_log_folder_has_failed_ends(tmp_path: Path) -> None:
    settings = {"log.flush.offset.checkpoint.interval.ms": "50"}
    broker = start_floodmark(tmp_path, settings)
    # In one step: files that the broker makes meanwhile would be in the way of removing it.
    broker.data_dir.rename(tmp_path / "gone")
    wait_for(lambda: not broker.process.is_running(), START_S)
    assert broker.process.stop() == 1
    assert "every log folder has failed" in broker.process.output()
    assert "Traceback" not in broker.process.output()
