"""A request that names very much keeps nobody waiting: neither the largest that is served, nor one
that is too large."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from floodmark.apis.dispatch import SERVED
from floodmark.testing.broker_thread import BrokerThread
from floodmark.wire import messages
from floodmark.wire.api_keys import ApiKey
from fuzz_kit.large_requests import array_paths, with_entries
from fuzz_kit.raw_client import RawClient, request_bytes

MOST_ENTRIES = 5_000
"""A quarter of what is served: a turn of the largest takes four times as long."""
MOST_NUMBERS = 10_000
LONGEST_TURN_MS = 100

ARRAYS = [
    (key, served.highest, path, MOST_NUMBERS if is_number else MOST_ENTRIES)
    for key, served in SERVED.items()
    for path, is_number in array_paths(messages.request_class(key), served.highest)
]


class Turns:
    """The longest turn of a broker's loop, in CPU time: other processes do not count, nor does the
    collector, which finds more in a process of tests than in one of a broker."""

    def __init__(self, broker: BrokerThread) -> None:
        self._broker = broker

    def __enter__(self) -> None:
        gc.disable()
        self._broker.call(self._begin())

    def __exit__(self, *_: object) -> None:
        longest_ms = self._broker.call(self._end())
        gc.enable()
        assert longest_ms < LONGEST_TURN_MS

    async def _begin(self) -> None:
        self._longest_ms = 0.0
        self._last_s = time.thread_time()
        self._look()

    def _look(self) -> None:
        now_s = time.thread_time()
        self._longest_ms = max(self._longest_ms, (now_s - self._last_s) * 1000)
        self._last_s = now_s
        self._next = asyncio.get_running_loop().call_later(0.001, self._look)

    async def _end(self) -> float:
        self._next.cancel()
        self._look()
        self._next.cancel()
        return self._longest_ms


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerThread]:
    with BrokerThread(tmp_path_factory.mktemp("large")) as started:
        yield started


@pytest.mark.parametrize(("key", "version", "path", "most"), ARRAYS)
def test_the_largest_request_that_is_served_is_no_long_turn(
    broker: BrokerThread, key: ApiKey, version: int, path: tuple[str, ...], most: int
) -> None:
    # The structures around the array are entries, too.
    few, many = (frame(key, version, path, count) for count in (1, most - 2 * len(path)))
    with RawClient(broker.bootstrap_servers) as client:
        # What is loaded and compiled once is not what is measured.
        client.send_frame(few)
        client.read_frame()
        with Turns(broker):
            client.send_frame(many)
            client.read_frame()


def frame(key: ApiKey, version: int, path: tuple[str, ...], count: int) -> bytes:
    message = with_entries(messages.request_class(key), version, path, count)
    if key is ApiKey.PRODUCE:
        message.acks = 1
    return request_bytes(message, version)


@pytest.mark.parametrize(("key", "version", "path", "most"), ARRAYS)
def test_a_request_that_names_too_much_ends_its_connection_and_no_other(
    broker: BrokerThread, key: ApiKey, version: int, path: tuple[str, ...], most: int
) -> None:
    with RawClient(broker.bootstrap_servers) as client, Turns(broker):
        client.send_frame(frame(key, version, path, 10 * most))
        assert client.is_closed()


def test_many_small_arrays_count_together(broker: BrokerThread) -> None:
    offsets = messages.request_class(ApiKey.LIST_OFFSETS)
    request = with_entries(offsets, 7, ("topics",), 100)
    for topic in request.topics:
        topic.partitions = (
            with_entries(offsets, 7, ("topics", "partitions"), 250).topics[0].partitions
        )
    with RawClient(broker.bootstrap_servers) as client:
        client.send_frame(request_bytes(request, 7))
        assert client.is_closed()


def test_a_broker_can_be_told_to_take_larger_requests(tmp_path: Path) -> None:
    request = with_entries(messages.request_class(ApiKey.METADATA), 12, ("topics",), 101)
    for most, is_closed in (("100", True), ("101", False)):
        settings = {"floodmark.request.max.entries": most}
        with (
            BrokerThread(tmp_path / most, settings) as broker,
            RawClient(broker.bootstrap_servers) as client,
        ):
            client.send_frame(request_bytes(request, 12))
            assert client.is_closed() is is_closed


def test_an_old_produce_is_counted_as_well(broker: BrokerThread) -> None:
    body = (1).to_bytes(2, "big") + (0).to_bytes(4, "big") + (1_000_000).to_bytes(4, "big")
    with RawClient(broker.bootstrap_servers) as client:
        client.send_frame(bytes([0, 0, 0, 2, 0, 0, 0, 7, 0xFF, 0xFF]) + body + bytes(6_000_000))
        assert client.is_closed()
