"""`floodmark demo` from its broker to the table that it serves, called by us and by Java."""

import sys
from pathlib import Path

import pytest

from floodmark.cli.demo_java import missing_tools
from kit.programs import run_program

FLOODMARK = str(Path(sys.executable).with_name("floodmark"))


@pytest.mark.timeout(240)
def test_the_demo_calls_its_revenue_table_at_the_end() -> None:
    output = run_program([FLOODMARK, "demo", "--seconds", "5"], timeout_s=220)
    _, _, served = output.partition("the topic revenue as a Dubbo service")
    ours, _, rest = served.partition("from Java")
    rows = [line.split() for line in ours.splitlines() if line.startswith("clothing ")]
    assert len(rows) == 1 and int(rows[0][-1]) > 0, output
    if not missing_tools() and "not shown: mvn did not end" not in rest:
        assert [line.split() for line in rest.splitlines() if line.startswith("clothing ")] == rows
