"""hessian-lite, the library inside Java's Dubbo, reads what we write and we read what it writes."""

import base64
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from floodmark.service.hessian import dumps, loads
from kit.dubbo_jars import DUBBO_2, DUBBO_3, JAVA_OPTIONS, dubbo_jars
from kit.hessian_values import Description, classes, values
from kit.jars import classpath
from kit.java_program import compiled
from kit.seeds import seed
from kit.tools import require_tool

SOURCE = Path(__file__).parent / "java" / "HessianPeer.java"
PYTHON_VALUES = 400
JAVA_VALUES = 1500

pytestmark = pytest.mark.java


def generated(*, uuids: bool) -> list[Any]:
    """Values of all kinds, drawn by hypothesis."""
    drawn: list[Any] = []

    @settings(max_examples=PYTHON_VALUES, suppress_health_check=list(HealthCheck))
    @given(values(uuids=uuids))
    def draw(value: Any) -> None:
        drawn.append(value)

    draw()
    return drawn


@pytest.mark.parametrize("version", [DUBBO_2, DUBBO_3])
def test_both_sides_read_what_the_other_writes(version: str) -> None:
    require_tool("java", "javac", "mvn")
    known = classes()
    sent = generated(uuids=version == DUBBO_3)
    answers = peer(version, [base64.b64encode(dumps(value, known)).decode() for value in sent])
    assert len(answers) == len(sent) + JAVA_VALUES
    for value, (description, _again) in zip(sent, answers, strict=False):
        assert Description().of(value) == description
    for description, data in answers:
        got = Description().of(loads(data, known))
        assert Description.without_widths(got) == Description.without_widths(description)


def peer(version: str, lines: list[str]) -> list[tuple[str, bytes]]:
    jars = dubbo_jars(version)
    command = ["java", "-Xmx256m", *JAVA_OPTIONS, "-cp"]
    command += [f"{compiled(SOURCE, jars)}:{classpath(jars)}", "HessianPeer"]
    outcome = subprocess.run(
        [*command, str(seed()), str(JAVA_VALUES)],
        input="\n".join([*lines, "", ""]),
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert outcome.returncode == 0, outcome.stderr[-3000:]
    answers = [line.split(" ") for line in outcome.stdout.splitlines()]
    return [
        (base64.b64decode(text).decode("utf-16-be", "surrogatepass"), base64.b64decode(data))
        for text, data in answers
    ]
