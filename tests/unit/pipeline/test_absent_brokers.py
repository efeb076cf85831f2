"""Whatever a task or the driver does first, it waits for a broker that is away."""

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait

import pyarrow as pa
import pytest

from floodmark.pipeline.datasource.batch_marks import Repeatable
from floodmark.pipeline.datasource.batch_writers import plan_write
from floodmark.pipeline.datasource.connecting import BROKER_ABSENCE_MS
from floodmark.pipeline.datasource.options import (
    WriteOptions,
    parse_read_options,
    parse_write_options,
)
from floodmark.pipeline.datasource.task_writes import write_rows, write_rows_once
from floodmark.testing import Broker
from kit.topics import read_topic

ABSENCE_S = 1.5


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as running:
        yield running


def options_for(broker: Broker, topic: str) -> WriteOptions:
    given = {"kafka.bootstrap.servers": broker.bootstrap_servers, "topic": topic}
    return parse_write_options(given)


def rows(*values: bytes) -> Iterator[pa.RecordBatch]:
    yield pa.record_batch({"value": pa.array(values, pa.binary())})


def during_an_absence(broker: Broker, work: Callable[[], object]) -> None:
    """The work begins while nobody answers, and must end once somebody does."""
    broker.stop()
    with ThreadPoolExecutor(1) as pool:
        outcome = pool.submit(work)
        done, _ = wait([outcome], timeout=ABSENCE_S)
        is_waiting = not done
        broker.start()
        outcome.result(60)
    assert is_waiting


def test_a_task_that_starts_while_the_broker_is_away_writes_its_rows_once(broker: Broker) -> None:
    topic = broker.create_topic()
    options = options_for(broker, topic)
    batch = Repeatable("q", 0, 1, topic)
    asyncio.run(plan_write(options, batch, 0))
    during_an_absence(
        broker, lambda: asyncio.run(write_rows_once(options, batch, rows(b"a", b"b")))
    )
    asyncio.run(write_rows_once(options, batch, rows(b"a", b"b")))
    assert [r.value for r in read_topic(broker.bootstrap_servers, topic)] == [b"a", b"b"]


def test_a_plain_write_that_starts_while_the_broker_is_away_waits(broker: Broker) -> None:
    topic = broker.create_topic()
    options = options_for(broker, topic)
    during_an_absence(broker, lambda: asyncio.run(write_rows(options, rows(b"a"))))
    assert [r.value for r in read_topic(broker.bootstrap_servers, topic)] == [b"a"]


def test_the_driver_plans_a_batch_while_the_broker_is_away(broker: Broker) -> None:
    topic = broker.create_topic()
    batch = Repeatable("q", 0, 1, topic)
    during_an_absence(broker, lambda: asyncio.run(plan_write(options_for(broker, topic), batch, 0)))


def test_every_wait_of_reads_and_writes_has_the_stated_limit() -> None:
    servers = {"kafka.bootstrap.servers": "h:1"}
    reads = parse_read_options({**servers, "subscribe": "t"}, streaming=True).client
    writes = parse_write_options({**servers, "topic": "t"}).client
    assert BROKER_ABSENCE_MS == 120_000
    limits = {
        reads.default_api_timeout_ms,
        writes.default_api_timeout_ms,
        writes.max_block_ms,
        writes.delivery_timeout_ms,
    }
    assert limits == {BROKER_ABSENCE_MS}
