"""kcat, a C program on librdkafka 2.0: it produces, consumes and lists.

The topic comes to be by its first record (auto.create.topics.enable).
"""

import json
import subprocess
from typing import Any

import pytest

from kit import scenario
from kit.broker import Broker
from kit.tools import require_tool

pytestmark = [pytest.mark.kcat, pytest.mark.timeout(120)]


@pytest.fixture(autouse=True)
def _kcat() -> None:
    require_tool("kcat")


def _run(broker: Broker, *arguments: str, lines: str = "") -> str:
    command = ["kcat", "-b", broker.bootstrap, *arguments]
    outcome = subprocess.run(
        command, input=lines, capture_output=True, text=True, check=False, timeout=60
    )
    assert outcome.returncode == 0, outcome.stderr
    return outcome.stdout


def _produce(broker: Broker, topic: str, run: scenario.Run) -> None:
    lines = "".join(f"{_key(number)}|{_value(number)}\n" for number in run.numbers)
    options = ["-P", "-t", topic, "-p", "0", "-K|", "-z", run.codec]
    options += ["-H", f"codec={run.codec}", "-H", "empty="]
    options += ["-X", f"enable.idempotence={str(run.idempotent).lower()}"]
    _run(broker, *options, lines=lines)


def _consume(broker: Broker, topic: str, start: str) -> list[dict[str, Any]]:
    output = _run(broker, "-C", "-q", "-e", "-J", "-t", topic, "-p", "0", "-o", start)
    return [json.loads(line) for line in output.splitlines()]


def _key(number: int) -> str:
    return f"key-{number}"


def _value(number: int) -> str:
    return f"value {number} é " + "x" * number


def test_kcat_produces_consumes_and_lists(broker: Broker, topic: str, base_ms: int) -> None:
    runs = scenario.runs(base_ms)
    for run in runs:
        _produce(broker, topic, run)
    expected = [
        (number, _key(number), _value(number), ["codec", run.codec, "empty", ""])
        for run in runs
        for number in run.numbers
    ]
    records = _consume(broker, topic, "beginning")
    assert _contents(records) == expected
    from_offset = _consume(broker, topic, str(scenario.FROM_OFFSET))
    assert _contents(from_offset) == expected[scenario.FROM_OFFSET :]
    time_ms = records[scenario.FROM_TIME_INDEX]["ts"]
    first = next(at for at, record in enumerate(records) if record["ts"] >= time_ms)
    assert _contents(_consume(broker, topic, f"s@{time_ms}")) == expected[first:]
    assert _contents(_consume(broker, topic, "-5")) == expected[-5:]

    listed = json.loads(_run(broker, "-L", "-J", "-t", topic))
    (described,) = listed["topics"]
    assert described["topic"] == topic
    assert described["partitions"][0]["leader"] == listed["brokers"][0]["id"]
    queried = _run(broker, "-Q", "-t", f"{topic}:0:{time_ms}")
    assert queried.strip() == f"{topic} [0] offset {first}"


def _contents(records: list[dict[str, Any]]) -> list[tuple[int, str, str, list[str]]]:
    return [(each["offset"], each["key"], each["payload"], each["headers"]) for each in records]
