"""A whole broker inside the test's process, on a loop and thread of its own.

Public; the `floodmark` fixture is one of these. It works for plain and for asyncio tests alike,
because it shares no loop with them.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Mapping
from concurrent.futures import Future
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from floodmark.broker.broker import Broker
from floodmark.clock import Clock
from floodmark.config.broker_config import BrokerConfig
from floodmark.config.errors import ConfigError
from floodmark.config.not_served import refuse_open_doors
from floodmark.controller.topics import NewTopic
from floodmark.storage.files import Files
from floodmark.testing.faults import Faults
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


class BrokerThread:
    """Use as a context manager, or call `start` and `stop`."""

    def __init__(
        self,
        data_dir: Path,
        settings: Mapping[str, str] | None = None,
        *,
        clock: Clock | None = None,
        files: Files | None = None,
    ) -> None:
        properties = {**TEST_SETTINGS, "log.dirs": str(data_dir), **(settings or {})}
        self._config = _checked(BrokerConfig.load(properties))
        self._clock = clock
        self._files = files
        self._stop: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._started: Future[Broker] = Future()
        self._thread = threading.Thread(target=self._run, name="floodmark-broker", daemon=True)
        self.faults = Faults()

    def start(self) -> Self:
        """Returns when the broker serves; raises what kept it from doing so."""
        self._thread.start()
        self._started.result(CALL_TIMEOUT_S)
        return self

    def stop(self) -> None:
        if self._loop is not None and self._stop is not None and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(CALL_TIMEOUT_S)
        if self._thread.is_alive():
            raise RuntimeError(f"the broker did not stop within {CALL_TIMEOUT_S:.0f} s")

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    @property
    def broker(self) -> Broker:
        """The broker itself. It lives on another thread: change it only through `call`."""
        return self._started.result(CALL_TIMEOUT_S)

    @property
    def bootstrap_servers(self) -> str:
        return self.broker.address

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs a coroutine on the broker's loop and returns its result."""
        assert self._loop is not None, "the broker has not been started"
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(CALL_TIMEOUT_S)

    def create_topic(
        self, name: str, partitions: int = 1, configs: Mapping[str, str] | None = None
    ) -> str:
        """Creates a topic and returns its name; RuntimeError says why it could not."""
        topic = NewTopic(name, partitions, 1, configs=dict(configs or {}))
        (created,) = self.call(self.broker.controller.create_topics([topic], validate_only=False))
        if created.error_code is not ErrorCode.NONE:
            raise RuntimeError(
                f"topic {name} was not created: {created.error_code.name} {created.message}"
            )
        return name

    def _run(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        try:
            broker = Broker(self._config, clock=self._clock, files=self._files)
            await broker.start()
        except BaseException as problem:  # noqa: BLE001 - handed to the thread that waits
            self._started.set_exception(problem)
            return
        broker.dispatch.faults = self.faults
        self._started.set_result(broker)
        await self._stop.wait()
        await broker.stop()


def _checked(config: BrokerConfig) -> BrokerConfig:
    """Where a broker warns of a name that it does not know, a test that misspells one must fail:
    it would pass without testing what it says.
    """
    refuse_open_doors(config)
    for name in config.unknown_names:
        raise ConfigError(f"there is no setting {name}", name=name, hint="Look at its spelling")
    return config
