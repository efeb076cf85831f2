"""What `consume` and `cat` say about where a topic ends, and how long they read."""

from typing import Any

import pytest

from floodmark.cli.main import run
from floodmark.testing.broker_thread import BrokerThread

from .conftest import Cli


@pytest.fixture(scope="module")
def three(broker: BrokerThread) -> str:
    """A topic with the records 1, 2 and 3."""
    return broker.create_topic("three")


@pytest.fixture(autouse=True)
def filled(three: str, cli: Cli) -> None:
    if not cli("consume", three, "--from-beginning").out:
        assert cli("produce", three, stdin=b"1\n2\n3\n").code == 0


@pytest.mark.parametrize("start", [(), ("--from-beginning",)])
def test_a_member_of_a_group_follows_with_or_without_from_beginning(
    start: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    plans: list[Any] = []

    async def noted(_address: str, _settings: Any, plan: Any, _formatter: Any) -> None:
        plans.append(plan)

    monkeypatch.setattr("floodmark.cli.commands.consume._consume", noted)
    assert run(["consume", "t", "--group", "g", *start]) == 0
    assert plans[0].follow


def test_cat_that_stops_after_some_records_does_not_claim_to_be_at_the_end(cli: Cli) -> None:
    done = cli("cat", "-C", "-t", "three", "-c", "2", "-e")
    assert (done.code, done.out) == (0, "1\n2\n")
    assert "Reached end" not in done.err


def test_cat_says_where_the_end_is_when_it_is_there(cli: Cli) -> None:
    done = cli("cat", "-C", "-t", "three", "-c", "9", "-e")
    assert done.out == "1\n2\n3\n"
    assert "% Reached end of topic three [0] at offset 3" in done.err


def test_an_offset_beyond_the_end_is_said_with_where_the_end_is(cli: Cli) -> None:
    done = cli("consume", "three", "--offset", "99")
    assert (done.code, done.out) == (0, "")
    assert "three-0 ends at offset 3: reading starts there instead of at 99" in done.err
    assert cli("consume", "three", "--offset", "3").err == ""
    assert "ends at offset 3" in cli("cat", "-C", "-t", "three", "-o", "99", "-e").err
    assert cli("cat", "-q", "-C", "-t", "three", "-o", "99", "-e").err == ""


def test_an_offset_that_is_no_longer_there_is_said_with_where_the_log_begins(
    cli: Cli, broker: BrokerThread
) -> None:
    broker.create_topic("trimmed")
    cli("produce", "trimmed", stdin=b"1\n2\n3\n")
    assert cli("records", "delete", "trimmed", "--before", "2", "--yes").code == 0
    done = cli("consume", "trimmed", "--offset", "1")
    assert done.out == "3\n"
    assert "trimmed-0 begins at offset 2: reading starts there instead of at 1" in done.err


@pytest.mark.parametrize("text", ["\N{SUPERSCRIPT TWO}", "9" * 30])
def test_digits_that_are_no_time_are_refused(cli: Cli, text: str) -> None:
    assert cli("consume", "t", "--from-time", text).code == 2
    assert cli("cat", "-C", "-t", "t", "-o", f"s@{text}").code == 2


def test_a_number_that_no_request_can_hold_is_explained(cli: Cli) -> None:
    done = cli("topic", "create", "huge", "-p", "3000000000")
    assert done.code == 1
    assert "does not fit into a request" in done.err
    assert "`--help` shows what the command takes" in done.err
