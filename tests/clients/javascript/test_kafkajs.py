"""kafkajs: the pure JavaScript client. It reads through groups only, so it needs a coordinator."""

import hashlib
import shutil
from pathlib import Path

import pytest

from kit.broker import Broker
from kit.jars import cache_lock
from kit.probe import advertises
from kit.programs import run_program
from kit.tools import require_tool

pytestmark = [pytest.mark.javascript, pytest.mark.timeout(300)]

_HERE = Path(__file__).parent
_JOIN_GROUP = 11
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
    """The script beside its packages, in the cache: node_modules stays out of the source tree."""
    require_tool("node", "npm")
    digest = hashlib.sha256((_HERE / "package.json").read_bytes()).hexdigest()[:16]
    with cache_lock(f"npm-{digest}") as folder:
        if not (folder / "installed").exists():
            shutil.copy(_HERE / "package.json", folder)
            run_program(["npm", "install", "--no-audit", "--no-fund"], timeout_s=240, cwd=folder)
            (folder / "installed").touch()
        shutil.copy(_HERE / "scenario.js", folder)
    return folder / "scenario.js"


def test_kafkajs_passes_the_scenario(
    broker: Broker, topic: str, base_ms: int, program: Path
) -> None:
    if not advertises(broker.port, _JOIN_GROUP):
        pytest.skip("the broker has no groups yet, and kafkajs reads in no other way")
    output = run_program(["node", str(program), broker.bootstrap, topic, str(base_ms)])
    assert output.splitlines() == [f"passed: {step}" for step in _STEPS]
