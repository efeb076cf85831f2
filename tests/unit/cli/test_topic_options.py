"""Options of topics by the names of Kafka's tools and of rpk."""

import json

import pytest

from floodmark.cli.main import run

from .conftest import Cli


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("of-rpk", ["-p", "2", "-r", "1", "-c", "retention.ms=5"]),
        (
            "of-rpk-long",
            ["--partitions", "2", "--replicas", "1", "--topic-config", "retention.ms=5"],
        ),
        (
            "of-kafka",
            ["--partitions", "2", "--replication-factor", "1", "--config", "retention.ms=5"],
        ),
    ],
)
def test_a_topic_is_made_with_the_options_of_other_tools(
    cli: Cli, name: str, options: list[str]
) -> None:
    assert cli("topic", "create", name, *options).code == 0
    (described,) = json.loads(cli("topic", "describe", name, "-o", "json").out)
    assert len(described["partitions"]) == 2
    assert described["replication_factor"] == 1
    assert described["configs"] == {"retention.ms": "5"}
    assert cli("topic", "alter", name, "-p", "3", "-c", "retention.ms=6").code == 0
    assert cli("topic", "add-partitions", name, "-p", "4").code == 0
    (described,) = json.loads(cli("topic", "describe", name, "-o", "json").out)
    assert len(described["partitions"]) == 4
    assert described["configs"] == {"retention.ms": "6"}


@pytest.mark.parametrize("option", ["--version", "-V"])
def test_the_version_is_printed(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([option]) == 0
    assert capsys.readouterr().out.startswith("floodmark ")
