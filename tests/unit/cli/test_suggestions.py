"""What is mistyped gets a suggestion."""

import pytest

from floodmark.cli.main import run
from floodmark.config.suggestions import closest

from .conftest import Cli


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        (["topc"], "topic"),
        (["topics", "list"], "topic"),
        (["prodcue", "t"], "produce"),
        (["start"], "up"),
        (["help"], "--help"),
        (["topic", "crate", "t"], "create"),
        (["group", "ls"], "list"),
        (["records", "remove"], "delete"),
    ],
)
def test_a_command_that_is_not_there_suggests_one_that_is(
    arguments: list[str], meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments) == 2
    assert f"Did you mean '{meant}'?" in capsys.readouterr().err


def test_nothing_is_suggested_for_nonsense(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["xyzzy"]) == 2
    assert "Did you mean" not in capsys.readouterr().err
    assert closest("xyzzy", ["topic"]) is None


@pytest.mark.parametrize(
    "command",
    [
        ["topic", "create", "new", "-c", "retention.mss=1"],
        ["topic", "alter", "there", "-c", "retention.mss=1"],
        ["config", "alter", "--topic", "there", "retention.mss=1"],
    ],
)
def test_a_topic_setting_that_is_not_there_suggests_one_that_is(
    cli: Cli, command: list[str]
) -> None:
    cli("topic", "create", "there", "--if-not-exists")
    done = cli(*command)
    assert done.code == 1
    assert "did you mean retention.ms? `floodmark config list topics`" in done.err


def test_a_group_setting_that_is_not_there_suggests_one_that_is(cli: Cli) -> None:
    done = cli("config", "alter", "--group", "g", "consumer.session.timeout=1")
    assert done.code == 1
    assert "did you mean consumer.session.timeout.ms?" in done.err
    assert "`floodmark config list groups`" in done.err


def test_a_broker_setting_that_is_not_there_is_warned_of_with_a_suggestion(cli: Cli) -> None:
    """Kafka stores it, in case a plugin knows it; so do we."""
    done = cli("config", "alter", "--broker-defaults", "log.retention.mss=1")
    assert done.code == 0
    assert "log.retention.mss is not a broker setting (did you mean log.retention.ms?)" in done.err
    assert cli("config", "alter", "--broker", "1", "log.cleaner.threads=1").err == ""


def test_settings_are_listed_with_type_and_default(cli: Cli) -> None:
    done = cli("config", "list", "topics", "retention.ms")
    assert [line.split()[:3] for line in done.out.splitlines()] == [
        ["NAME", "TYPE", "DEFAULT"],
        ["delete.retention.ms", "long", "86400000"],
        ["local.retention.ms", "long", "-2"],
        ["retention.ms", "long", "604800000"],
    ]
    assert cli("config", "list", "brokers", "nowhere").code == 1


@pytest.mark.parametrize(
    "command",
    [
        ["topic", "describe", "ther"],
        ["consume", "ther", "--from-beginning"],
        ["cat", "-C", "-t", "ther"],
        ["records", "delete", "ther", "--before", "1"],
        ["group", "reset", "g", "--topic", "ther", "--to-latest"],
    ],
)
def test_a_topic_that_is_not_there_suggests_one_that_is(cli: Cli, command: list[str]) -> None:
    cli("topic", "create", "there", "--if-not-exists")
    done = cli(*command)
    assert done.code == 1
    assert "topic ther does not exist" in done.err
    assert "did you mean there? `floodmark topic list`" in done.err
