"""Tables and progress."""

import pytest

from floodmark.cli.output import print_table
from floodmark.cli.progress import Progress
from floodmark.testing.virtual_clock import VirtualClock


def test_columns_are_aligned_and_numbers_stand_to_the_right(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_table(("NAME", "COUNT", "LIST"), [("a", 7, [1, 2]), ("longer", 12345, None)])
    assert capsys.readouterr().out.splitlines() == [
        "NAME    COUNT  LIST",
        "a           7  1,2",
        "longer  12345  -",
    ]


def test_an_empty_table_is_its_head(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("NAME", "COUNT"), [])
    assert capsys.readouterr().out == "NAME  COUNT\n"


def test_progress_is_silent_for_two_seconds_and_wipes_itself(
    capsys: pytest.CaptureFixture[str],
) -> None:
    clock = VirtualClock()
    progress = Progress("records", enabled=True, clock=clock)
    clock.advance(1_900)
    progress.update(10)
    assert capsys.readouterr().err == ""
    clock.advance(600)
    progress.update(5_000, 10_000)
    assert "5,000 of 10,000 records, 2,000 per second" in capsys.readouterr().err
    progress.finish()
    assert capsys.readouterr().err == "\r\x1b[K"
