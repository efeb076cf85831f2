"""`floodmark records delete`: by offset, by partition, from Kafka's JSON file."""

import json
from itertools import count
from pathlib import Path

import pytest

from floodmark.testing.broker_thread import BrokerThread

from .conftest import Cli

_numbers = count()


@pytest.fixture
def topic(broker: BrokerThread, cli: Cli) -> str:
    """Two partitions of five records each."""
    name = broker.create_topic(f"full-{next(_numbers)}", partitions=2)
    for partition in ("0", "1"):
        assert cli("produce", name, "-p", partition, stdin=b"a\nb\nc\nd\ne\n").code == 0
    return name


def starts(cli: Cli, topic: str) -> list[int]:
    (described,) = json.loads(cli("topic", "describe", topic, "-o", "json").out)
    return [partition["start_offset"] for partition in described["partitions"]]


def test_what_lies_below_an_offset_is_deleted_in_every_partition(cli: Cli, topic: str) -> None:
    done = cli("records", "delete", topic, "--before", "3", "--yes")
    assert done.code == 0
    assert [line.split() for line in done.out.splitlines()] == [
        ["TOPIC", "PARTITION", "START", "END", "DELETED", "ERROR"],
        [topic, "0", "3", "5", "3", "-"],
        [topic, "1", "3", "5", "3", "-"],
    ]
    assert starts(cli, topic) == [3, 3]


def test_one_partition_is_emptied(cli: Cli, topic: str) -> None:
    done = cli(
        "records", "delete", "--topic", topic, "-p", "1", "--before", "end", "-y", "-o", "json"
    )
    assert json.loads(done.out) == [
        {"topic": topic, "partition": 1, "start": 5, "end": 5, "deleted": 5, "error": None}
    ]
    assert starts(cli, topic) == [0, 5]


def test_kafkas_json_file_says_what_goes(cli: Cli, topic: str, tmp_path: Path) -> None:
    file = tmp_path / "offsets.json"
    rows = [
        {"topic": topic, "partition": 0, "offset": 2},
        {"topic": topic, "partition": 1, "offset": -1},
    ]
    file.write_text(json.dumps({"partitions": rows, "version": 1}))
    assert cli("records", "delete", "--offset-json-file", str(file), "--yes").code == 0
    assert starts(cli, topic) == [2, 5]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "it is not JSON"),
        ('{"version": 2, "partitions": []}', "version"),
        ('{"partitions": [{"topic": "t", "partition": 0, "ofset": 1}]}', "did you mean offset?"),
        ('{"partitions": [{"topic": "t", "partition": 0}]}', "offset"),
        ('{"partitions": [{"topic": "t", "partition": 0, "offset": "1"}]}', "offset"),
        ('{"partitions": [{"topic": "t", "partition": 0, "offset": -2}]}', "offset"),
        (
            '{"partitions": [{"topic": "t", "partition": 0, "offset": 1},'
            ' {"topic": "t", "partition": 0, "offset": 2}]}',
            "twice",
        ),
        ('{"partitions": []}', "no partition"),
    ],
)
def test_a_file_that_is_not_right_deletes_nothing(
    cli: Cli, tmp_path: Path, text: str, why: str
) -> None:
    file = tmp_path / "offsets.json"
    file.write_text(text)
    done = cli("records", "delete", "--offset-json-file", str(file), "--yes")
    assert done.code == 1
    assert why in done.err
    assert "try: " in done.err


def test_without_a_yes_nothing_is_deleted(cli: Cli, topic: str) -> None:
    done = cli("records", "delete", topic, "--before", "3")
    assert done.code == 1
    assert "--yes" in done.err
    assert starts(cli, topic) == [0, 0]


def test_one_partition_that_is_refused_does_not_hide_the_others(cli: Cli, topic: str) -> None:
    cli("produce", topic, "-p", "0", stdin=b"f\ng\n")
    done = cli("records", "delete", topic, "--before", "6", "--yes", "-o", "json")
    assert done.code == 1
    assert [row["error"] for row in json.loads(done.out)] == [None, "OFFSET_OUT_OF_RANGE"]
    assert f"{topic}-1" in done.err
    assert "ends at offset 5" in done.err
    assert starts(cli, topic) == [6, 0]


def test_a_compacted_topic_says_why_it_keeps_its_records(cli: Cli, broker: BrokerThread) -> None:
    broker.create_topic("kept", configs={"cleanup.policy": "compact"})
    cli("produce", "kept", "-k", "k", stdin=b"v\n")
    done = cli("records", "delete", "kept", "--before", "1", "--yes")
    assert done.code == 1
    assert "cleanup.policy" in done.err


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("t",),
        ("--before", "1"),
        ("t", "--before", "soon"),
        ("t", "--before", "1", "--offset-json-file", "f.json"),
    ],
)
def test_it_has_to_be_said_what_to_delete(
    cli: Cli, arguments: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "f.json").write_text("{}")
    assert cli("records", "delete", *arguments, "--yes").code == 2
