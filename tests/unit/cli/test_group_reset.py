"""What `floodmark group reset` accepts, before any broker is asked."""

import pytest

from floodmark.cli.commands.group_reset import parse_duration_ms, read_rows
from floodmark.cli.errors import CliError
from floodmark.cli.main import run
from floodmark.cli.times import parse_datetime_ms
from floodmark.client.cluster.view import TopicPartition


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--all-topics"], "exactly one of"),
        (["--to-earliest"], "name the topics"),
        (["--topic", "t:x", "--to-earliest"], "topic:0,1"),
        (["--all-topics", "--topic", "t", "--to-earliest"], "name the topics"),
        (["--all-topics", "--to-earliest", "--to-latest"], "exactly one of"),
        (["--all-topics", "--to-earliest", "--dry-run", "--execute"], "mutually exclusive"),
        (["--all-topics", "--to-earliest", "--all-groups"], "not both"),
        (["--all-topics", "--to-datetime", "yesterday"], "is not a time"),
        (["--all-topics", "--by-duration", "1 day"], "is not a duration"),
        (["--all-topics", "--by-duration", "PT"], "is not a duration"),
    ],
)
def test_a_reset_that_makes_no_sense_is_refused(
    arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["group", "reset", "g", *arguments, "-b", "127.0.0.1:1"]) == 2
    assert complaint in capsys.readouterr().err


def test_a_time_without_a_zone_is_utc() -> None:
    assert parse_datetime_ms("1970-01-01T00:00:01.500") == 1_500
    assert parse_datetime_ms("1970-01-01T01:00:00+01:00") == 0
    # Negative timestamps are something else: -1 is the end.
    assert parse_datetime_ms("1969-12-31T23:59:59.999") == 0


def test_durations_are_those_of_iso_8601() -> None:
    assert parse_duration_ms("P1DT2H3M4.5S") == 93_784_500
    assert parse_duration_ms("PT90M") == 5_400_000


def test_a_file_names_groups_or_means_all() -> None:
    rows = read_rows("t,0,1\n\ng,t,0,2\n")
    assert rows == {None: {TopicPartition("t", 0): 1}, "g": {TopicPartition("t", 0): 2}}


@pytest.mark.parametrize("line", ["t,0", "t,zero,1", "g,h,t,0,1"])
def test_a_line_that_is_no_offset_is_named(line: str) -> None:
    with pytest.raises(CliError) as refused:
        read_rows(f"t,0,1\n{line}\n")
    assert "line 2" in refused.value.format_message()
