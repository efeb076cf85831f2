"""What the commands say of a partition that has no leader."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from floodmark.cli.main import run
from floodmark.testing.broker_thread import BrokerThread


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """Of a broker that cannot open partition 1 of its topic `t`."""
    with BrokerThread(tmp_path) as before:
        before.create_topic("t", 2)
    folder = tmp_path / "t-1"
    shutil.rmtree(folder)
    folder.write_bytes(b"not a folder")
    with BrokerThread(tmp_path) as broker:
        yield broker.bootstrap_servers


def test_a_description_says_that_there_is_no_leader(
    address: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["topic", "describe", "t", "-b", address]) == 0
    leaders = [line.split()[:2] for line in capsys.readouterr().out.splitlines()[-2:]]
    assert leaders == [["0", "1"], ["1", "none"]]


def test_a_consumer_is_told_what_it_waits_for(
    address: str, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["consume", "t", "--from-beginning", "-X", "default.api.timeout.ms=300"]
    assert run([*arguments, "-b", address]) == 1
    assert "waiting for leaderless partitions of t: 1 " in capsys.readouterr().err
    assert run([*arguments, "--partition", "0", "-b", address]) == 0
    assert "waiting" not in capsys.readouterr().err
