"""A whole broker inside the test's process, on a loop and thread of its own.

PUBLIC as `floodmark.testing.Broker`; the `floodmark` fixture is one of these. It works for plain
and for asyncio tests alike, because it shares no loop with them.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
import threading
import weakref
from collections.abc import Coroutine, Mapping
from concurrent.futures import Future
from difflib import get_close_matches
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar
from uuid import uuid4

from floodmark.broker.broker import Broker as RealBroker
from floodmark.clock import Clock
from floodmark.config.broker_config import BrokerConfig
from floodmark.config.errors import ConfigError
from floodmark.config.not_served import refuse_open_doors
from floodmark.config.settings import BROKER_SETTINGS_BY_NAME
from floodmark.controller.topics import NewTopic
from floodmark.storage.files import Files
from floodmark.testing.faults import Faults
from floodmark.testing.memory_files import MemoryFiles
from floodmark.testing.values import SettingValue, as_texts
from floodmark.testing.virtual_clock import VirtualClock
from floodmark.testing.virtual_loop import VirtualLoop
from floodmark.wire.errors import ErrorCode

T = TypeVar("T")

CALL_TIMEOUT_S = 30.0

TEST_SETTINGS: Mapping[str, str] = {
    "listeners": "PLAINTEXT://127.0.0.1:0",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
}
"""A free port, and no waiting: what is slow on purpose in production is quick in a test."""

MEMORY_DIR = Path("/floodmark-data")
NOT_STARTED = "the broker has not been started: use `with`, or call start()"

SETTINGS_VARIABLE = "FLOODMARK_TEST_SETTINGS"


def settings_from_environment() -> dict[str, str]:
    """Settings for all brokers of a test run: `name=value`, several with commas in between.

    With log.flush.interval.messages=1 a suite rehearses a cluster: nothing is acknowledged at once.
    """
    pairs = filter(None, os.environ.get(SETTINGS_VARIABLE, "").split(","))
    return {name: value for name, _, value in (pair.partition("=") for pair in pairs)}


class Broker:
    """A broker for tests, on a free port of 127.0.0.1.

        with Broker(settings={"num.partitions": 3}) as broker:
            topic = broker.create_topic()
            run_my_code(broker.bootstrap_servers, topic)

    Use it with `with`, with `async with`, or call `start` and, at the end, `close`. In between
    `stop` and `start` take it away and back, on the same port and with the same data.

    - `data_dir`: the folder for the data; without it a temporary one, which `close` removes.
    - `settings`: Kafka's broker settings; an unknown one is a ConfigError.
    - `clock`: a `VirtualClock`, to let time pass at will.
    - `files`: a `MemoryFiles`, for a broker that leaves the disk alone, full disks and power loss.
    """

    def __init__(
        self,
        data_dir: Path | str | None = None,
        settings: Mapping[str, SettingValue] | None = None,
        *,
        clock: Clock | None = None,
        files: Files | None = None,
    ) -> None:
        if isinstance(data_dir, Mapping):
            raise TypeError("the first argument is the data folder: use Broker(settings={...})")
        given = as_texts(settings)
        in_memory = isinstance(files, MemoryFiles)
        if in_memory:
            _refuse_cleaner(given)
            given["log.cleaner.enable"] = "false"
            data_dir = MEMORY_DIR if data_dir is None else data_dir
        self._needs_folder = data_dir is None and not {"log.dirs", "log.dir"} & given.keys()
        own_folder = {} if data_dir is None else {"log.dirs": str(data_dir)}
        self._config = checked_config(
            {**TEST_SETTINGS, **settings_from_environment(), **own_folder, **given}
        )
        self._clock = clock
        self._files = files
        self._running: _Running | None = None
        self._broker: RealBroker | None = None
        self._address: str | None = None
        self._remove_folder: weakref.finalize[..., Any] | None = None
        self.faults = Faults()

    def start(self) -> Self:
        """Returns when the broker serves; raises what kept it from doing so."""
        if self._running is not None:
            raise RuntimeError("the broker is running already")
        if self._needs_folder and self._remove_folder is None:
            folder = tempfile.mkdtemp(prefix="floodmark-")
            self._remove_folder = weakref.finalize(self, shutil.rmtree, folder, True)
            self._config = self._config.with_static({"log.dirs": folder})
        running = _Running(self, self._config, self._clock, self._files)
        self._broker = broker = running.start()
        self._running = running
        self._address = broker.address
        self._config = self._config.with_static({"listeners": _as_bound(broker)})
        return self

    def stop(self) -> None:
        """Stops the broker in order; `start` brings it back on the same port with its data.

        Clients see a broker that went away. Armed faults stay armed.
        """
        if self._running is not None:
            running, self._running = self._running, None
            running.stop()

    def close(self) -> None:
        """Stops the broker and removes its data, unless `data_dir` or `log.dirs` was given."""
        try:
            self.stop()
        finally:
            if self._remove_folder is not None:
                self._remove_folder()
                self._remove_folder = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return await asyncio.to_thread(self.start)

    async def __aexit__(self, *exc_info: object) -> None:
        await asyncio.to_thread(self.close)

    @property
    def is_running(self) -> bool:
        return self._running is not None

    @property
    def broker(self) -> RealBroker:
        """The broker itself; after `stop` the one that ran last. It lives on another thread: change
        it only through `call`.
        """
        if self._broker is None:
            raise RuntimeError(NOT_STARTED)
        return self._broker

    @property
    def bootstrap_servers(self) -> str:
        """Its address, as clients take it: `127.0.0.1:49153`. It stays the same over restarts."""
        if self._address is None:
            raise RuntimeError(NOT_STARTED)
        return self._address

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs a coroutine on the broker's loop and returns its result."""
        return self._require_running().call(work)

    def create_topic(
        self,
        name: str | None = None,
        partitions: int = 1,
        configs: Mapping[str, SettingValue] | None = None,
    ) -> str:
        """Creates a topic and returns its name; RuntimeError says why it could not.

        orders = broker.create_topic("orders", partitions=3, configs={"retention.ms": 60_000})
        fresh = broker.create_topic()  # a name that no other topic has
        """
        name = fresh_topic_name() if name is None else name
        topic = NewTopic(name, partitions, 1, configs=as_texts(configs))
        running = self._require_running()
        (created,) = running.call(
            self.broker.controller.create_topics([topic], validate_only=False)
        )
        if created.error_code is not ErrorCode.NONE:
            raise RuntimeError(
                f"topic {name} was not created: {created.error_code.name} {created.message}"
            )
        return name

    def _require_running(self) -> _Running:
        if self._running is None:
            raise RuntimeError("the broker is not running: use `with`, or call start()")
        return self._running


BrokerThread = Broker
"""The former name."""


class _Running:
    """One run of a broker: its thread and its loop, from a start to the next stop."""

    def __init__(
        self, owner: Broker, config: BrokerConfig, clock: Clock | None, files: Files | None
    ) -> None:
        # The thread keeps its owner: one that is garbage would take the data folder along.
        self._owner = owner
        self._config = config
        self._clock = clock
        self._files = files
        self._stop = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._started: Future[RealBroker] = Future()
        self._thread = threading.Thread(target=self._run, name="floodmark-broker", daemon=True)

    def start(self) -> RealBroker:
        self._thread.start()
        return self._started.result(CALL_TIMEOUT_S)

    def stop(self) -> None:
        if self._loop is not None and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(CALL_TIMEOUT_S)
        if self._thread.is_alive():
            raise RuntimeError(f"the broker did not stop within {CALL_TIMEOUT_S:.0f} s")

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        assert self._loop is not None
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(CALL_TIMEOUT_S)

    def _run(self) -> None:
        clock = self._clock
        factory = (lambda: VirtualLoop(clock)) if isinstance(clock, VirtualClock) else None
        with asyncio.Runner(loop_factory=factory) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        try:
            broker = RealBroker(self._config, clock=self._clock, files=self._files)
            await broker.start()
        except BaseException as problem:  # noqa: BLE001 - handed to the thread that waits
            self._started.set_exception(problem)
            return
        broker.dispatch.faults = self._owner.faults
        self._started.set_result(broker)
        await self._stop.wait()
        await broker.stop()


def fresh_topic_name(prefix: str = "topic") -> str:
    """A name that no other topic has."""
    return f"{prefix}-{uuid4().hex[:12]}"


def _as_bound(broker: RealBroker) -> str:
    """The listeners with the ports that the system chose for a 0."""
    return ",".join(
        f"{x.name}://{f'[{x.host}]' if ':' in x.host else x.host}:{broker.network.port(x.name)}"
        for x in broker.config.listeners
    )


def _refuse_cleaner(given: Mapping[str, str]) -> None:
    if given.get("log.cleaner.enable", "false").strip().lower() != "false":
        raise ConfigError(
            "log.cleaner.enable cannot be used with files in memory: compaction is done by a "
            "process of its own, which does not see them",
            name="log.cleaner.enable",
            hint="Leave out files=, and the broker uses a temporary folder",
        )


def checked_config(settings: Mapping[str, str]) -> BrokerConfig:
    """Where a broker warns of a name that it does not know, a test that misspells one must fail:
    it would pass without testing what it says.
    """
    config = BrokerConfig.load(settings)
    refuse_open_doors(config)
    for name in config.unknown_names:
        alike = get_close_matches(name, BROKER_SETTINGS_BY_NAME, n=1)
        guess = f": did you mean {alike[0]}?" if alike else ""
        raise ConfigError(f"there is no setting {name}{guess}", name=name)
    return config
