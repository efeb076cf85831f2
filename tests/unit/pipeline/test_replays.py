"""Where a replay starts, and what it leaves for the next run."""

import asyncio
import json
from pathlib import Path

import click
import pytest

from floodmark.cli.commands.pipeline_replay import parse_start
from floodmark.cli.main import run
from floodmark.client.cluster.view import TopicPartition
from floodmark.client.offsets import OffsetSpec
from floodmark.pipeline.authoring.checkpoints import open_checkpoint
from floodmark.pipeline.authoring.replays import (
    changed_starts,
    declared_start,
    record_drop,
    record_replay,
    remember_start,
    start_replay,
)
from floodmark.pipeline.datasource.offsets import Positions
from floodmark.pipeline.datasource.options import parse_read_options
from floodmark.pipeline.datasource.planning import Planner
from floodmark.pipeline.errors import OptionError
from floodmark.testing import Broker
from kit.topics import fill_topic, make_topic

ORDERS = TopicPartition("orders", 0)


@pytest.mark.parametrize(
    "command", [["replay", "sums", "--from", "earliest"], ["drop", "sums"], ["reset", "sums"]]
)
def test_an_unknown_name_comes_with_those_that_exist(
    command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["pipeline", *command, "--checkpoints", str(tmp_path)]
    assert run(words) == 1
    assert "try: name another folder with --checkpoints" in capsys.readouterr().err
    shop = open_checkpoint(tmp_path / "shop", "shop", "localhost:1")
    record_replay(shop.folder, "revenue", {ORDERS: 5})
    assert run(words) == 1
    expected = "shop" if command[0] == "reset" else "revenue (of shop)"
    assert f"try: use one of {expected}" in capsys.readouterr().err


def test_marks_get_a_new_name_with_every_replay(tmp_path: Path) -> None:
    checkpoint = open_checkpoint(tmp_path / "c", "shop", "localhost:1")
    names = [checkpoint.query_name("revenue")]
    record_replay(checkpoint.folder, "revenue", {ORDERS: 5})
    names.append(checkpoint.query_name("revenue"))
    record_drop(checkpoint.folder, "revenue")
    names.append(checkpoint.query_name("revenue"))
    assert len(set(names)) == 3
    assert checkpoint.query_name("other") == f"shop.other.{checkpoint.run_id}"


def test_a_replay_replaces_the_declared_start_of_its_own_topics(tmp_path: Path) -> None:
    checkpoint = open_checkpoint(tmp_path / "c", "shop", "localhost:1")
    record_replay(checkpoint.folder, "revenue", {ORDERS: 5, TopicPartition("other", 0): 7})
    options = {
        "kafka.bootstrap.servers": "localhost:1",
        "subscribe": "orders",
        "startingTimestamp": "1",
    }
    start_replay(options, checkpoint.replayed_from("revenue"))
    assert "startingTimestamp" not in options
    assert json.loads(options["startingOffsets"]) == {"orders": {"0": 5}}


def test_partitions_that_were_added_since_a_replay_are_read_from_their_beginning() -> None:
    with Broker() as broker:
        make_topic(broker.bootstrap_servers, "orders", partitions=2)
        fill_topic(broker.bootstrap_servers, "orders", [(None, b"x")] * 4)
        options = {"kafka.bootstrap.servers": broker.bootstrap_servers, "subscribe": "orders"}
        start_replay(options, {ORDERS: 1})
        assert asyncio.run(starts_of(options)) == {ORDERS: 1, TopicPartition("orders", 1): 0}
        del options["readAddedPartitions"]
        with pytest.raises(OptionError, match="must name every partition"):
            asyncio.run(starts_of(options))


async def starts_of(options: dict[str, str]) -> Positions:
    parsed = parse_read_options(options, streaming=True)
    planner = Planner(parsed)
    try:
        return await planner.resolve(parsed.starting, await planner.partitions())
    finally:
        await planner.close()


def test_a_dropped_output_starts_as_declared(tmp_path: Path) -> None:
    checkpoint = open_checkpoint(tmp_path / "c", "shop", "localhost:1")
    record_replay(checkpoint.folder, "revenue", {ORDERS: 5})
    record_drop(checkpoint.folder, "revenue")
    assert checkpoint.replayed_from("revenue") is None


def test_a_changed_start_is_noticed_until_a_replay(tmp_path: Path) -> None:
    earliest, latest = declared_start("earliest", {}), declared_start("latest", {})
    assert changed_starts(tmp_path, "revenue", {"orders": latest}) == []
    remember_start(tmp_path, "revenue", {"orders": earliest}, None)
    assert changed_starts(tmp_path, "revenue", {"orders": earliest}) == []
    assert changed_starts(tmp_path, "revenue", {"orders": latest}) == ["orders"]
    record_replay(tmp_path, "revenue", {ORDERS: 0})
    assert changed_starts(tmp_path, "revenue", {"orders": latest}) == []


def test_a_start_is_a_word_a_time_an_offset_or_json() -> None:
    assert parse_start("earliest").spec == OffsetSpec.EARLIEST
    assert parse_start("latest").spec == OffsetSpec.LATEST
    assert parse_start("1970-01-01T00:00:01").spec == 1000
    assert parse_start("23").offset == 23
    assert parse_start('{"orders": {"0": 23}}').offsets == {ORDERS: 23}
    age_ms = parse_start("2h").spec
    assert age_ms is not None and age_ms > 1_000_000_000_000


@pytest.mark.parametrize("text", ["soon", "-5"])
def test_another_start_is_refused(text: str) -> None:
    with pytest.raises(click.UsageError):
        parse_start(text)
