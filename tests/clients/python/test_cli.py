"""The commands as a user types them, against a running broker."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kit.broker import Broker
from kit.process import free_port

TIMEOUT_S = 60


def floodmark(
    broker: Broker, *arguments: str, stdin: bytes = b"", code: int = 0
) -> subprocess.CompletedProcess[bytes]:
    """Run a command and check how it ended; no traceback, whatever happens."""
    done = subprocess.run(
        [sys.executable, "-m", "floodmark", *arguments],
        input=stdin,
        capture_output=True,
        env={**os.environ, "FLOODMARK_BOOTSTRAP_SERVER": broker.bootstrap},
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == code, done.stderr.decode()
    assert b"Traceback" not in done.stderr
    return done


def lines(done: subprocess.CompletedProcess[bytes]) -> list[str]:
    return done.stdout.decode().splitlines()


def test_a_topic_from_creation_to_deletion(broker: Broker, topic: str) -> None:
    floodmark(broker, "topic", "create", topic, "--partitions", "2", "--config", "retention.ms=999")
    again = floodmark(broker, "topic", "create", "--topic", topic, code=1)
    assert b"TOPIC_ALREADY_EXISTS" in again.stderr
    assert b"try: " in again.stderr
    floodmark(broker, "topic", "create", "--topic", topic, "--if-not-exists")
    listed = json.loads(floodmark(broker, "topic", "list", "-o", "json").stdout)
    assert {"topic": topic, "partitions": 2}.items() <= _only(listed, topic).items()
    floodmark(broker, "topic", "alter", topic, "--config", "retention.ms=888", "--partitions", "3")
    shrink = floodmark(broker, "topic", "add-partitions", topic, "--partitions", "1", code=1)
    assert b"can only grow" in shrink.stderr
    floodmark(broker, "topic", "add-partitions", topic, "--partitions", "4")
    described = json.loads(floodmark(broker, "topic", "describe", topic, "-o", "json").stdout)
    assert described[0]["configs"]["retention.ms"] == "888"
    assert [p["end_offset"] for p in described[0]["partitions"]] == [0, 0, 0, 0]
    table = lines(floodmark(broker, "topic", "describe", topic))
    columns = ["PARTITION", "LEADER", "EPOCH", "REPLICAS", "ISR", "START", "END", "STATE"]
    assert table[1].split() == columns
    floodmark(broker, "topic", "delete", topic)
    assert b"does not exist" in floodmark(broker, "topic", "describe", topic, code=1).stderr
    floodmark(broker, "topic", "delete", topic, "--if-exists")


def test_changes_tell_machines_what_became_of_each_topic(broker: Broker, topic: str) -> None:
    floodmark(broker, "topic", "create", topic)
    done, failed = {"topic": topic, "error": None}, "UNKNOWN_TOPIC_OR_PARTITION"
    missing = {"topic": f"{topic}-missing", "error": failed}
    for change in (
        ("alter", "--config", "retention.ms=888"),
        ("alter", "--config", "retention.ms=888", "--partitions", "2"),
        ("add-partitions", "--partitions", "3"),
    ):
        told = floodmark(broker, "topic", *change, topic, missing["topic"], "-o", "json", code=1)
        assert json.loads(told.stdout) == [done, missing]
        assert failed.encode() in told.stderr
    both = ("config", "alter", "--topic", topic, "-o", "json")
    told = floodmark(broker, *both, "retention.ms=777")
    assert json.loads(told.stdout) == [{"type": "topic", "name": topic, "error": None}]
    told = floodmark(broker, *both, "retention.ms=soon", code=1)
    assert json.loads(told.stdout) == [{"type": "topic", "name": topic, "error": "INVALID_CONFIG"}]


def _only(listed: list[dict[str, object]], topic: str) -> dict[str, object]:
    (found,) = [item for item in listed if item["topic"] == topic]
    return found


def test_settings_are_described_and_altered(broker: Broker, topic: str) -> None:
    floodmark(broker, "topic", "create", topic)
    entity = ("--entity-type", "topics", "--entity-name", topic)
    add = "cleanup.policy=[compact,delete],retention.ms=777"
    floodmark(broker, "config", "alter", *entity, "--add-config", add)
    (described,) = json.loads(
        floodmark(broker, "config", "describe", "--topic", topic, "-o", "json").stdout
    )
    values = {item["name"]: item["value"] for item in described["configs"]}
    assert values["cleanup.policy"] == "compact,delete"
    assert values["retention.ms"] == "777"
    floodmark(broker, "config", "alter", *entity, "--delete-config", "retention.ms")
    shown = floodmark(broker, "config", "describe", "--topic", topic, "--all").stdout
    assert b"604800000" in shown
    refused = floodmark(broker, "config", "alter", "--topic", topic, "retention.ms=soon", code=1)
    assert b"INVALID_CONFIG" in refused.stderr


def test_records_go_in_and_come_out(broker: Broker, topic: str) -> None:
    floodmark(broker, "topic", "create", topic)
    floodmark(broker, "produce", topic, "-K", ":", "-H", "h=1", stdin=b"a:1\nb:2\nno key\n")
    formatted = floodmark(
        broker, "consume", topic, "--from-beginning", "-F", "%t/%p/%o %k=%s %h\\n"
    )
    assert lines(formatted) == [
        f"{topic}/0/0 a=1 h=1",
        f"{topic}/0/1 b=2 h=1",
        f"{topic}/0/2 =no key h=1",
    ]
    as_json = floodmark(broker, "consume", topic, "--from-beginning", "-o", "json").stdout
    floodmark(broker, "produce", topic, "--json", "-z", "zstd", stdin=as_json)
    assert lines(floodmark(broker, "consume", topic, "--last", "2")) == ["2", "no key"]
    assert lines(floodmark(broker, "consume", topic, "--offset", "4", "-n", "1")) == ["2"]
    assert lines(floodmark(broker, "consume", topic, "--offset", "-1")) == ["no key"]
    assert len(lines(floodmark(broker, "consume", topic, "--from-time", "1h"))) == 6
    assert lines(floodmark(broker, "consume", topic, "--from-time", "2099-01-01")) == []


def test_a_file_may_be_the_input(broker: Broker, topic: str, tmp_path: Path) -> None:
    path = tmp_path / "records"
    path.write_bytes(b"one;two;three")
    floodmark(broker, "produce", "--topic", topic, str(path), "-D", ";", "--acks", "1")
    out = floodmark(broker, "consume", topic, "--from-beginning")
    assert lines(out) == ["one", "two", "three"]


def test_consume_follows_until_it_is_interrupted(broker: Broker, topic: str) -> None:
    floodmark(broker, "produce", topic, stdin=b"old\n")
    command = [sys.executable, "-m", "floodmark", "consume", topic, "--from-beginning", "-f"]
    following = subprocess.Popen(
        [*command, "-b", broker.bootstrap], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    with following:
        assert following.stdout is not None
        assert following.stderr is not None
        assert following.stdout.readline() == b"old\n"
        floodmark(broker, "produce", topic, stdin=b"new\n")
        assert following.stdout.readline() == b"new\n"
        following.send_signal(signal.SIGINT)
        assert following.stderr.read().strip() == b""
        assert following.wait(TIMEOUT_S) == 130


def test_cat_speaks_kcats_letters(broker: Broker, topic: str) -> None:
    floodmark(broker, "topic", "create", topic)
    floodmark(
        broker, "cat", "-P", "-t", topic, "-K=", "-H", "x=y", "-z", "lz4", stdin=b"a=1\nb=2\n"
    )
    out = floodmark(broker, "cat", "-C", "-t", topic, "-e", "-q", "-f", "%o %k %s %h\\n")
    assert lines(out) == ["0 a 1 x=y", "1 b 2 x=y"]
    envelope = floodmark(broker, "cat", "-C", "-t", topic, "-e", "-q", "-J", "-o", "-1")
    assert json.loads(envelope.stdout)["payload"] == "2"
    listed = floodmark(broker, "cat", "-L", "-t", topic).stdout.decode()
    assert f'topic "{topic}" with 1 partitions:' in listed
    asked = floodmark(broker, "cat", "-Q", "-t", f"{topic}:0:0")
    assert lines(asked) == [f"{topic} [0] offset 0"]


def test_bench_reports_rate_and_latency(broker: Broker) -> None:
    for case, options in (
        ("produce", ["--records", "2000"]),
        ("consume", ["--records", "2000", "--partitions", "2"]),
        ("latency", ["--rate", "50", "--seconds", "1"]),
    ):
        done = floodmark(broker, "bench", case, *options, "-o", "json")
        assert json.loads(done.stdout)["records_per_second"] > 0


@pytest.mark.parametrize("command", [["consume", "--from-beginning"], ["topic", "describe"]])
def test_a_missing_topic_is_an_error_and_is_not_made(
    broker: Broker, topic: str, command: list[str]
) -> None:
    done = floodmark(broker, *command, topic, code=1)
    assert f"topic {topic} does not exist".encode() in done.stderr
    assert topic not in floodmark(broker, "topic", "list").stdout.decode()


def test_up_says_where_it_listens_and_stops_in_order(tmp_path: Path) -> None:
    port = free_port()
    command = [sys.executable, "-m", "floodmark", "up", "--port", str(port)]
    for number, code in ((signal.SIGTERM, 0), (signal.SIGINT, 0)):
        running = subprocess.Popen(
            [*command, "--data-dir", str(tmp_path / "data")],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        with running:
            assert running.stdout is not None
            assert f"listens on 127.0.0.1:{port}".encode() in running.stdout.readline()
            running.send_signal(number)
            assert running.wait(TIMEOUT_S) == code
        assert (tmp_path / "data" / ".kafka_cleanshutdown").exists()


def test_up_on_a_port_that_is_taken_is_explained(broker: Broker, tmp_path: Path) -> None:
    done = floodmark(
        broker, "up", "--port", str(broker.port), "--data-dir", str(tmp_path / "data"), code=1
    )
    assert b"why: " in done.stderr
