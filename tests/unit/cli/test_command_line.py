"""The command line as a whole: help, exit codes, what is imported when."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from floodmark.cli.main import COMMANDS, run
from floodmark.testing.broker_thread import BrokerThread


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_every_command_has_help(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*command.split(), "--help"]) == 0
    assert "Usage: floodmark" in capsys.readouterr().out


def test_help_imports_no_command_and_no_client() -> None:
    """What is imported decides how fast --help answers; a list is steadier than a stopwatch."""
    script = (
        "import sys\n"
        "from floodmark.cli.main import run\n"
        "run(['--help'])\n"
        "loaded = [n for n in sys.modules if n.startswith('floodmark.')]\n"
        "print(sorted(loaded), 'asyncio' in sys.modules, 'rich' in sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=30
    )
    expected = [f"floodmark.cli{name}" for name in ("", ".help", ".lazy", ".main")]
    assert done.stdout.splitlines()[-1] == f"{expected} False False"


def test_python_dash_m_is_the_same_command() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "floodmark", "--version"],
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
    )
    assert done.stdout.startswith("floodmark ")


@pytest.mark.parametrize(
    "arguments",
    [
        ["nonsense"],
        ["topic", "create"],
        ["topic", "alter", "t"],
        ["topic", "create", "t", "--replica-assignment", "x"],
        ["topic", "create", "t", "--config", "novalue"],
        ["config", "describe"],
        ["config", "alter", "--topic", "t"],
        ["config", "describe", "--entity-type", "brokers", "--entity-name", "abc"],
        ["produce"],
        ["produce", "t", "-D", "\\xzz"],
        ["produce", "t", "-D", ""],
        ["cat", "-P", "-t", "t", "-K", ""],
        ["consume"],
        ["consume", "t", "--offset", "soon"],
        ["consume", "t", "--from-time", "tomorrow"],
        ["consume", "t", "--from-beginning", "--last", "3"],
        ["consume", "t", "--from-beginning", "-F", "%z"],
        ["cat", "-C"],
        ["cat", "-Q", "-t", "t"],
        ["cat", "-L", "-m", "nan"],
        ["broker", "stop", "1", "--timeout", "nan"],
        ["broker", "stop", "1", "--timeout", "inf"],
        ["broker", "stop", "1", "--timeout", "-1"],
        ["log", "dump"],
        ["feature", "upgrade"],
        ["feature", "upgrade", "transaction.version=two"],
        ["up", "--port", "99999"],
    ],
)
def test_wrong_usage_ends_with_two(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments) == 2
    assert "Error: " in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        ["topic", "list"],
        ["config", "describe", "--topic", "t"],
        ["consume", "t", "--from-beginning"],
        ["bench", "produce", "--records", "1"],
    ],
)
def test_an_absent_broker_ends_with_one_and_says_what_to_do(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*arguments, "--bootstrap-server", "127.0.0.1:1"]) == 1
    error = capsys.readouterr().err
    assert "the broker is unreachable" in error
    assert "why: " in error
    assert "try: start one with `floodmark up`" in error


def test_the_bootstrap_server_may_come_from_the_environment(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLOODMARK_BOOTSTRAP_SERVER", "127.0.0.1:2")
    assert run(["topic", "list"]) == 1
    assert "127.0.0.1:2" in capsys.readouterr().err


def test_a_bad_client_setting_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["produce", "t", "-X", "acks=7", "-b", "127.0.0.1:1"]) == 1
    assert "acks=7 is invalid" in capsys.readouterr().err


def test_interruption_is_quiet(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(_work: object) -> None:
        _work.close()  # type: ignore[attr-defined]
        raise KeyboardInterrupt

    monkeypatch.setattr("floodmark.cli.commands.topic.run_client", interrupted)
    assert run(["topic", "list"]) == 130
    captured = capsys.readouterr()
    # click ends the line on which the terminal echoed ^C.
    assert (captured.out, captured.err.strip()) == ("", "")


def test_names_may_be_arguments_or_options_and_count_once(
    capsys: pytest.CaptureFixture[str], floodmark: BrokerThread
) -> None:
    at = ["-b", floodmark.bootstrap_servers]
    assert run(["topic", "create", "a", "--topic", "b,a", "--topic", "c", *at]) == 0
    made = capsys.readouterr().out.splitlines()
    assert made == [f"topic {name} created with 1 partition" for name in "abc"]
    # Unlike a topic's name, a group's may have commas.
    assert run(["group", "describe", "--group", "a,b", *at]) == 1
    assert "group a,b does not exist" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        ["cat", "-Q", "-t", "made:9:0"],
        ["transaction", "abort", "--topic", "made", "--partition", "9", "--start-offset", "0"],
        ["consume", "made", "-p", "9"],
    ],
)
def test_a_partition_that_is_not_there_is_no_reason_to_wait(
    arguments: list[str], capsys: pytest.CaptureFixture[str], floodmark: BrokerThread
) -> None:
    floodmark.create_topic("made", partitions=3)
    assert run([*arguments, "-b", floodmark.bootstrap_servers]) == 1
    said = capsys.readouterr().err
    assert "topic made has no partition 9" in said
    assert "its partitions are 0 to 2" in said


def test_a_file_that_cannot_be_opened_is_an_error_and_no_traceback(
    capsys: pytest.CaptureFixture[str], floodmark: BrokerThread, tmp_path: Path
) -> None:
    at = ["-b", floodmark.bootstrap_servers]
    assert run(["cat", "-P", "-t", "t", str(tmp_path / "nowhere"), *at]) == 1
    assert "why: No such file or directory" in capsys.readouterr().err
    assert run(["cat", "-P", "-t", "t", str(tmp_path), *at]) == 1
    assert "why: Is a directory" in capsys.readouterr().err
    (tmp_path / "offsets.csv").write_bytes(b"\xff\xfe")
    given = ["--from-file", str(tmp_path / "offsets.csv")]
    assert run(["group", "reset", "g", *given, *at]) == 1
    assert "is not UTF-8 CSV" in capsys.readouterr().err


def test_a_benchmark_takes_settings_of_both_its_clients_and_refuses_others(
    capsys: pytest.CaptureFixture[str], floodmark: BrokerThread
) -> None:
    given = ["-X", "linger.ms=1", "-X", "fetch.min.bytes=1", "-b", floodmark.bootstrap_servers]
    assert run(["bench", "consume", "--records", "10", *given]) == 0
    assert capsys.readouterr().err == ""
    assert run(["bench", "consume", "--records", "10", *given, "-X", "no.such=1"]) == 1
    assert "this client does not support no.such" in capsys.readouterr().err


def test_sigterm_ends_a_consumer_in_order(floodmark: BrokerThread, floodmark_topic: str) -> None:
    """What was read is committed, so that the next one does not read it again."""
    at = ["-b", floodmark.bootstrap_servers]
    command = [sys.executable, "-m", "floodmark"]
    subprocess.run([*command, "produce", floodmark_topic, *at], input=b"a\nb\n", check=True)
    reading = ["consume", floodmark_topic, "--group", "g", "--from-beginning", *at]
    with subprocess.Popen([*command, *reading], stdout=subprocess.PIPE) as consumer:
        assert consumer.stdout is not None
        assert [consumer.stdout.readline() for _ in range(2)] == [b"a\n", b"b\n"]
        consumer.terminate()
        assert consumer.wait(30) == 143
    done = subprocess.run(
        [*command, "group", "describe", "g", "-o", "json", *at], capture_output=True, check=True
    )
    (group,) = json.loads(done.stdout)
    assert group["state"] == "Empty"
    assert [row["committed"] for row in group["partitions"]] == [2]


def test_features_are_described_and_moved(
    capsys: pytest.CaptureFixture[str], floodmark: BrokerThread
) -> None:
    at = ["-b", floodmark.bootstrap_servers]

    def finalized() -> int:
        assert run(["feature", "describe", "-o", "json", *at]) == 0
        features = json.loads(capsys.readouterr().out)["features"]
        return next(f["finalized"] for f in features if f["feature"] == "transaction.version")

    assert finalized() == 2
    assert run(["feature", "downgrade", "transaction.version=1", "--dry-run", *at]) == 0
    assert "can be changed to level 1" in capsys.readouterr().out
    assert finalized() == 2
    assert run(["feature", "downgrade", "transaction.version=1", *at]) == 0
    assert "feature transaction.version changed to level 1" in capsys.readouterr().out
    assert finalized() == 1
    assert run(["feature", "upgrade", "transaction.version=2", *at]) == 0
    assert run(["feature", "upgrade", "transaction.version=9", *at]) == 1
    assert "transaction.version" in capsys.readouterr().err
    assert finalized() == 2


def test_the_cluster_is_described_with_its_disks(
    capsys: pytest.CaptureFixture[str], floodmark: BrokerThread, floodmark_topic: str
) -> None:
    at = ["-b", floodmark.bootstrap_servers]
    assert run(["cluster", "describe", "-o", "json", *at]) == 0
    document = json.loads(capsys.readouterr().out)
    (broker,) = document["brokers"]
    assert (broker["broker"], broker["address"]) == (1, floodmark.bootstrap_servers)
    assert document["controller"] == 1
    (folder,) = broker["log_dirs"]
    assert folder["replicas"] == 1
    assert folder["free_bytes"] > 0
    assert run(["cluster", "describe", *at]) == 0
    assert f"cluster {document['cluster_id']}  controller 1" in capsys.readouterr().out


def test_cat_in_a_group_ends_at_the_end_when_told_to(
    capsysbinary: pytest.CaptureFixture[bytes], floodmark: BrokerThread, tmp_path: Path
) -> None:
    topic = floodmark.create_topic("orders", partitions=3)
    lines = tmp_path / "lines"
    lines.write_bytes(b"".join(b"%d\n" % number for number in range(100)))
    at = ["-b", floodmark.bootstrap_servers]
    assert run(["cat", "-P", "-l", "-t", topic, str(lines), *at]) == 0
    assert run(["cat", "-q", "-e", "-G", "readers", topic, *at]) == 0
    assert sorted(map(int, capsysbinary.readouterr().out.split())) == list(range(100))
    assert run(["cat", "-q", "-e", "-G", "readers", topic, *at]) == 0
    assert capsysbinary.readouterr().out == b""


class TestWithoutTopicCreation:
    @pytest.fixture
    def floodmark_settings(self) -> dict[str, str]:
        return {"auto.create.topics.enable": "false"}

    def test_a_producer_says_what_it_waits_for(
        self,
        capsys: pytest.CaptureFixture[str],
        floodmark: BrokerThread,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setattr("floodmark.cli.sending.TELL_AFTER_S", 0.1)
        (tmp_path / "lines").write_text("a record\n")
        given = ["-X", "max.block.ms=1000", "-b", floodmark.bootstrap_servers]
        assert run(["produce", "nowhere", str(tmp_path / "lines"), *given]) == 1
        said = capsys.readouterr().err
        assert "waiting for topic nowhere: it does not exist" in said
        assert "topic nowhere does not exist" in said


def test_a_full_disk_behind_the_output_is_explained() -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "floodmark", "--help"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            timeout=30,
        )
    assert done.returncode == 1
    assert "No space left on device" in done.stderr
    assert "Traceback" not in done.stderr
