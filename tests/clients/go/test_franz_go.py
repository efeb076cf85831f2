"""franz-go: the Go client."""

from pathlib import Path

import pytest

from kit.broker import Broker
from kit.jars import cache_lock
from kit.programs import run_program
from kit.tools import require_tool

pytestmark = [pytest.mark.go, pytest.mark.timeout(300)]

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
    require_tool("go")
    with cache_lock("go") as folder:
        built = folder / "franz-go-scenario"
        # Go's own build cache makes this quick when nothing changed.
        build = ["go", "build", "-o", str(built), "."]
        run_program(build, timeout_s=240, cwd=Path(__file__).parent)
    return built


def test_franz_go_passes_the_scenario(
    broker: Broker, topic: str, base_ms: int, program: Path
) -> None:
    output = run_program([str(program), broker.bootstrap, topic, str(base_ms)])
    assert output.splitlines() == [f"passed: {step}" for step in _STEPS]
