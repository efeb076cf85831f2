"""`floodmark group` and `floodmark transaction` as a user types them, against a running broker."""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from floodmark.client.consumer.consumer import Consumer
from floodmark.client.producer.producer import Producer
from floodmark.client.settings import ConsumerSettings, ProducerSettings
from kit.broker import Broker

TIMEOUT_S = 60
EARLY_MS, LATE_MS = 1_700_000_000_000, 1_750_000_000_000
BETWEEN = "2025-01-01T00:00:00.000"


def start(broker: Broker, *arguments: str) -> list[str]:
    return [sys.executable, "-m", "floodmark", *arguments, "-b", broker.bootstrap]


def floodmark(broker: Broker, *arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        start(broker, *arguments),
        capture_output=True,
        text=True,
        env=dict(os.environ),
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    return done


async def floodmark_async(broker: Broker, *arguments: str, code: int = 0) -> tuple[str, str]:
    """The same while clients of this process go on."""
    process = await asyncio.create_subprocess_exec(
        *start(broker, *arguments), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    out, err = await asyncio.wait_for(process.communicate(), TIMEOUT_S)
    assert process.returncode == code, err.decode()
    return out.decode(), err.decode()


def as_json(broker: Broker, *arguments: str) -> Any:
    return json.loads(floodmark(broker, *arguments, "-o", "json").stdout)


@pytest.fixture
async def filled(broker: Broker, topic: str) -> str:
    """A topic of two partitions with ten records each, half of them early and half late."""
    floodmark(broker, "topic", "create", topic, "--partitions", "2", "--config", "retention.ms=-1")
    async with Producer(broker.bootstrap) as producer:
        for number in range(20):
            time_ms = EARLY_MS if number < 10 else LATE_MS
            sent = await producer.send(
                topic, b"%d" % number, partition=number % 2, timestamp_ms=time_ms
            )
        await sent
    return topic


def reset(broker: Broker, topic: str, *where: str, code: int = 0) -> list[int]:
    """The new offset of each partition."""
    rows = json.loads(
        floodmark(broker, "group", "reset", f"g-{topic}", *where, "-o", "json", code=code).stdout
    )
    return [row["new_offset"] for row in rows]


def committed(broker: Broker, topic: str) -> list[int]:
    return [row["committed"] for row in as_json(broker, "group", "offsets", f"g-{topic}")]


def test_reset_goes_where_it_is_told_to(broker: Broker, filled: str) -> None:
    reset(broker, filled, "--topic", filled, "--to-offset", "6", "--execute")
    for where, expected in (
        (["--to-earliest"], [0, 0]),
        (["--to-latest"], [10, 10]),
        (["--to-offset", "4"], [4, 4]),
        (["--to-offset", "99"], [10, 10]),
        (["--shift-by", "2"], [8, 8]),
        (["--shift-by", "-99"], [0, 0]),
        (["--to-current"], [6, 6]),
        (["--to-datetime", BETWEEN], [5, 5]),
        (["--to-datetime", "2035-01-01T00:00:00.000"], [10, 10]),
        (["--by-duration", "P20000D"], [0, 0]),
    ):
        assert reset(broker, filled, "--all-topics", *where) == expected, where
    # Without --execute nothing is changed.
    assert committed(broker, filled) == [6, 6]
    reset(broker, filled, "--all-topics", "--to-datetime", BETWEEN, "--execute")
    assert committed(broker, filled) == [5, 5]


def test_reset_of_some_partitions_exports_what_it_reads_back(
    broker: Broker, filled: str, tmp_path: Path
) -> None:
    exported = floodmark(
        broker,
        *("group", "reset", "--group", f"g-{filled}", "--topic", f"{filled}:1"),
        *("--to-offset", "3", "--export"),
    )
    assert exported.stdout == f"{filled},1,3\n"
    assert "nothing was changed" in exported.stderr
    file = tmp_path / "offsets.csv"
    file.write_text(f"{filled},0,1\n{exported.stdout}")
    assert reset(broker, filled, "--from-file", str(file), "--execute") == [1, 3]
    assert committed(broker, filled) == [1, 3]
    (described,) = as_json(broker, "group", "describe", f"g-{filled}")
    assert described["state"] == "Empty"
    assert [row["lag"] for row in described["partitions"]] == [9, 7]
    file.write_text("not an offset\n")
    refused = floodmark(broker, "group", "reset", f"g-{filled}", "--from-file", str(file), code=1)
    assert "line 1" in refused.stderr


def test_consume_in_a_group_goes_on_where_it_stopped(broker: Broker, filled: str) -> None:
    group = f"g-{filled}"
    arguments = ("consume", filled, "--group", group, "-n", "15", "--from-beginning")
    first = floodmark(broker, *arguments).stdout.split()
    assert sum(committed(broker, filled)) == 15
    rest = floodmark(broker, "cat", "-q", "-c", "5", "-G", group, filled).stdout.split()
    assert sorted(first + rest, key=int) == [str(number) for number in range(20)]
    assert committed(broker, filled) == [10, 10]
    refused = floodmark(broker, "consume", filled, "--group", group, "--last", "1", code=2)
    assert "--from-beginning" in refused.stderr


def test_a_shift_needs_something_to_shift_from(broker: Broker, filled: str) -> None:
    where = ("--topic", filled, "--shift-by", "1")
    refused = floodmark(broker, "group", "reset", f"g-{filled}", *where, code=1)
    assert "nothing is committed" in refused.stderr
    assert "try: " in refused.stderr


async def test_an_active_group_is_shown_and_not_reset(broker: Broker, filled: str) -> None:
    group = f"g-{filled}"
    settings = ConsumerSettings(group_id=group, client_id="me", auto_offset_reset="earliest")
    async with Consumer(broker.bootstrap, settings) as consumer:
        await consumer.subscribe([filled])
        read = 0
        while read < 20:
            read += sum(map(len, (await consumer.poll(100)).values()))
        await consumer.commit()
        out, _ = await floodmark_async(broker, "group", "describe", group)
        summary, columns, *rows = out.splitlines()
        assert summary.split()[:3] == [group, "Stable", "classic"]
        assert columns.split() == [
            *("TOPIC", "PARTITION", "COMMITTED", "END", "LAG", "MEMBER", "CLIENT", "HOST")
        ]
        assert [row.split()[:5] for row in rows] == [
            [filled, "0", "10", "10", "0"],
            [filled, "1", "10", "10", "0"],
        ]
        out, _ = await floodmark_async(broker, "group", "members", group, "-o", "json")
        (member,) = json.loads(out)[0]["members"]
        assert member["client_id"] == "me"
        assert member["partitions"] == [f"{filled}-0", f"{filled}-1"]
        where = ("--all-topics", "--to-earliest", "--execute")
        _, err = await floodmark_async(broker, "group", "reset", group, *where, code=1)
        assert "it has 1 members (state Stable)" in err
        _, err = await floodmark_async(broker, "group", "delete", group, code=1)
        assert "NON_EMPTY_GROUP" in err
    assert {"group": group, "state": "Empty"}.items() <= next(
        item for item in as_json(broker, "group", "list") if item["group"] == group
    ).items()
    table = floodmark(broker, "group", "list", "--state", "Empty").stdout
    assert group in table
    floodmark(broker, "group", "delete", group, "--topic", f"{filled}:0")
    assert [row["partition"] for row in as_json(broker, "group", "offsets", group)] == [1]
    assert "deleted" in floodmark(broker, "group", "delete", group).stdout
    missing = floodmark(broker, "group", "describe", group, code=1)
    assert "GROUP_ID_NOT_FOUND" in missing.stderr


async def test_transactions_are_listed_described_and_aborted(broker: Broker, filled: str) -> None:
    name = f"tx-{filled}"
    settings = ProducerSettings(transactional_id=name)
    async with Producer(broker.bootstrap, settings) as producer:
        await producer.init_transactions()
        producer.begin_transaction()
        await producer.send_and_wait(filled, b"never", partition=0)
        out, _ = await floodmark_async(broker, "transaction", "list", "--state", "Ongoing")
        assert name in out
        out, _ = await floodmark_async(broker, "transaction", "describe", name, "-o", "json")
        (described,) = json.loads(out)
        assert described["state"] == "Ongoing"
        assert described["partitions"] == [f"{filled}-0"]
        where = ("--topic", filled, "--partition", "0")
        _, err = await floodmark_async(
            broker, "transaction", "abort", *where, "--start-offset", "9", code=1
        )
        assert "open transactions begin at 10" in err
        await floodmark_async(broker, "transaction", "abort", *where, "--start-offset", "10")
        out, _ = await floodmark_async(broker, "transaction", "abort", name)
        assert "its producer fenced" in out
    (described,) = as_json(broker, "transaction", "describe", name)
    assert described["state"] != "Ongoing"
    table = floodmark(broker, "transaction", "describe", name).stdout.splitlines()
    assert table[0].split()[:3] == ["TRANSACTIONAL-ID", "COORDINATOR", "PRODUCER-ID"]
    missing = floodmark(broker, "transaction", "abort", f"{name}-not", code=1)
    assert "TRANSACTIONAL_ID_NOT_FOUND" in missing.stderr
