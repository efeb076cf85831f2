"""Commands that are given several names: what is there is shown, what is not is an error."""

import json

import pytest

from floodmark.testing.broker_thread import BrokerThread

from .conftest import Cli


@pytest.fixture(autouse=True)
def something(cli: Cli, broker: BrokerThread) -> None:
    if cli("topic", "create", "there", "--if-not-exists").out:
        cli("produce", "there", stdin=b"1\n")
        assert cli("consume", "there", "--group", "here", "--from-beginning", "-n", "1").code == 0


@pytest.mark.parametrize("command", ["describe", "members", "offsets"])
def test_groups_that_exist_are_shown_beside_one_that_does_not(cli: Cli, command: str) -> None:
    done = cli("group", command, "here", "missing")
    assert done.code == 1
    assert "here" in done.out
    assert "group missing" in done.err
    done = cli("group", command, "missing", "here", "-o", "json")
    assert done.code == 1
    assert [item["group"] for item in json.loads(done.out)] == ["here"]


def test_topics_that_exist_are_shown_beside_one_that_does_not(cli: Cli) -> None:
    done = cli("topic", "describe", "gone", "there", "lost")
    assert done.code == 1
    assert done.out.startswith("there")
    assert "topic gone does not exist" in done.err
    assert "topic lost does not exist" in done.err


def test_settings_of_topics_that_exist_are_shown_beside_one_that_does_not(cli: Cli) -> None:
    done = cli("config", "describe", "--topic", "gone", "--topic", "there")
    assert done.code == 1
    assert "topic there" in done.out
    assert "topic gone" in done.err


def test_every_missing_transactional_id_is_named(cli: Cli) -> None:
    done = cli("transaction", "describe", "a", "b")
    assert done.code == 1
    assert "transactional id a" in done.err
    assert "transactional id b" in done.err
