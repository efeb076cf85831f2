"""kafkajs: the pure JavaScript client. It reads through groups only, so it needs a coordinator."""

from pathlib import Path

import pytest

from kit.broker import Broker
from kit.npm import npm_program
from kit.programs import run_program

pytestmark = [pytest.mark.javascript, pytest.mark.timeout(300)]

_HERE = Path(__file__).parent
_STEPS = [
    "create",
    "produce",
    "consume from the start",
    "consume from an offset",
    "consume from a time",
    "alter and describe",
    "delete",
]


@pytest.fixture(scope="session")
def program() -> Path:
    return npm_program(_HERE / "scenario.js", _HERE / "package.json")


def test_kafkajs_passes_the_scenario(
    broker: Broker, topic: str, base_ms: int, program: Path
) -> None:
    output = run_program(["node", str(program), broker.bootstrap, topic, str(base_ms)])
    assert output.splitlines() == [f"passed: {step}" for step in _STEPS]
