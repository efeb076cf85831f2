"""A complete broker inside the test process, with its own event loop and thread.

PUBLIC as `floodmark.testing.Broker` and as the `floodmark` fixture. Works in both plain and asyncio
tests, because it does not share their loop.
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
from typing import Any, Self, TypeVar
from uuid import uuid4

from floodmark.broker.broker import Broker as RealBroker
from floodmark.clock import Clock
from floodmark.config.broker_config import BrokerConfig
from floodmark.config.errors import ConfigError
from floodmark.config.not_served import refuse_open_doors
from floodmark.config.settings import BROKER_SETTINGS_BY_NAME
from floodmark.controller.topics import NewTopic
from floodmark.controller.users import CredentialChange
from floodmark.security.sasl import SCRAM_HASHES
from floodmark.security.scram_credentials import MIN_ITERATIONS, credential_of, salted_password
from floodmark.storage.files import Files
from floodmark.testing.faults import Faults
from floodmark.testing.memory_files import MemoryFiles
from floodmark.testing.secured import Secured
from floodmark.testing.values import SettingValue, as_texts
from floodmark.testing.virtual_clock import VirtualClock
from floodmark.testing.virtual_loop import VirtualLoop
from floodmark.testing.with_block import WithBlock
from floodmark.wire.errors import ErrorCode

T = TypeVar("T")

CALL_TIMEOUT_S = 30.0

TEST_SETTINGS: Mapping[str, str] = {
    "listeners": "PLAINTEXT://127.0.0.1:0",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
}
"""A free port, and no deliberate delays: a test should not wait for production timers."""

MEMORY_DIR = Path("/floodmark-data")
NOT_STARTED = "the broker has not been started: use `with`, or call start()"

SETTINGS_VARIABLE = "FLOODMARK_TEST_SETTINGS"


def settings_from_environment() -> dict[str, str]:
    """Settings for all brokers of a test run: comma-separated `name=value` pairs.

    With log.flush.interval.messages=1, acknowledgements are deferred as in a cluster.
    """
    pairs = filter(None, os.environ.get(SETTINGS_VARIABLE, "").split(","))
    return {name: value for name, _, value in (pair.partition("=") for pair in pairs)}


class Broker(WithBlock):
    """A broker for tests, on a free port of 127.0.0.1.

        with Broker(settings={"num.partitions": 3}) as broker:
            topic = broker.create_topic()
            run_my_code(broker.bootstrap_servers, topic)

    Use it with `with`, with `async with`, or call `start` and finally `close`. `stop` and `start`
    simulate a restart on the same port with the same data.

    - `data_dir`: the data folder. Default: a temporary folder that `close` removes.
    - `settings`: Kafka's broker settings. Unknown names raise a ConfigError.
    - `clock`: a `VirtualClock`, to control time.
    - `files`: a `MemoryFiles`, to keep data in memory and simulate full disks and power loss.
    - `security`: SSL, SASL_SSL or SASL_PLAINTEXT. Adds certificates, a user and tokens
      (`broker.security`). Needs `floodmark[security]`.
    """

    def __init__(
        self,
        data_dir: Path | str | None = None,
        settings: Mapping[str, SettingValue] | None = None,
        *,
        clock: Clock | None = None,
        files: Files | None = None,
        security: str | None = None,
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
        self._security = None if security is None else Secured(security)
        secured = {} if self._security is None else self._security.broker_settings()
        self._config = checked_config(
            {**TEST_SETTINGS, **settings_from_environment(), **secured, **own_folder, **given}
        )
        self._clock = clock
        self._files = files
        self._running: _Running | None = None
        self._broker: RealBroker | None = None
        self._address: str | None = None
        self._remove_folder: weakref.finalize[..., Any] | None = None
        self.faults = Faults()

    def start(self) -> Self:
        """Returns once the broker serves requests. Raises if it fails to start."""
        if self._running is not None:
            raise RuntimeError("the broker is already running")
        if self._needs_folder and self._remove_folder is None:
            folder = tempfile.mkdtemp(prefix="floodmark-")
            self._remove_folder = weakref.finalize(self, shutil.rmtree, folder, True)
            self._config = self._config.with_static({"log.dirs": folder})
        running = _Running(self, self._config, self._clock, self._files)
        self._broker = broker = running.start()
        self._running = running
        self._address = broker.address
        self._config = self._config.with_static({"listeners": _as_bound(broker)})
        if self._security is not None and self._security.uses_sasl:
            self.add_user(self._security.user, self._security.password)
        return self

    def stop(self) -> None:
        """Shuts the broker down cleanly. `start` restarts it on the same port with its data.

        Clients see the broker disappear. Armed faults stay armed.
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

    def _enter(self) -> None:
        self.start()

    @property
    def is_running(self) -> bool:
        """Whether the broker is started."""
        return self._running is not None

    @property
    def broker(self) -> RealBroker:
        """The underlying broker, or the last one after `stop`.

        It runs on another thread: change it only through `call`.
        """
        if self._broker is None:
            raise RuntimeError(NOT_STARTED)
        return self._broker

    @property
    def bootstrap_servers(self) -> str:
        """The address for clients, such as `127.0.0.1:49153`. It survives restarts."""
        if self._address is None:
            raise RuntimeError(NOT_STARTED)
        return self._address

    @property
    def security(self) -> Secured:
        """The certificates, user and tokens of a broker that was made with `security=`."""
        if self._security is None:
            raise RuntimeError('this broker has no security: use Broker(security="SASL_SSL")')
        return self._security

    def add_user(self, name: str, password: str) -> None:
        """Lets a user authenticate by SCRAM-SHA-256 and SCRAM-SHA-512."""
        changes = []
        for number, hash_name in enumerate(SCRAM_HASHES.values(), 1):
            salt = os.urandom(16)
            salted = salted_password(hash_name, password, salt, MIN_ITERATIONS)
            credential = credential_of(hash_name, salted, salt, MIN_ITERATIONS)
            changes.append(CredentialChange(name, number, credential))
        self.call(self.broker.controller.alter_scram_credentials(changes))

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs a coroutine on the broker's loop and returns its result."""
        return self._require_running().call(work)

    def create_topic(
        self,
        name: str | None = None,
        partitions: int = 1,
        configs: Mapping[str, SettingValue] | None = None,
    ) -> str:
        """Creates a topic and returns its name. Raises RuntimeError with the reason if it fails.

        orders = broker.create_topic("orders", partitions=3, configs={"retention.ms": 60_000})
        fresh = broker.create_topic()  # a unique name
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
    """One run of a broker, with its thread and loop, from start to stop."""

    def __init__(
        self, owner: Broker, config: BrokerConfig, clock: Clock | None, files: Files | None
    ) -> None:
        # Keeps the owner alive: garbage-collecting it would delete the data folder.
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
    """A unique topic name."""
    return f"{prefix}-{uuid4().hex[:12]}"


def _as_bound(broker: RealBroker) -> str:
    """The listeners with the ports the system chose for port 0."""
    return ",".join(
        f"{x.name}://{f'[{x.host}]' if ':' in x.host else x.host}:{broker.network.port(x.name)}"
        for x in broker.config.listeners
    )


def _refuse_cleaner(given: Mapping[str, str]) -> None:
    if given.get("log.cleaner.enable", "false").strip().lower() != "false":
        raise ConfigError(
            "log.cleaner.enable does not work with files in memory: compaction runs in a separate "
            "process that cannot see them",
            name="log.cleaner.enable",
            hint="Drop files= to use a temporary folder",
        )


def checked_config(settings: Mapping[str, str]) -> BrokerConfig:
    """A broker only warns about unknown settings, but a misspelt one must fail a test.

    Otherwise the test would pass without testing what it claims.
    """
    config = BrokerConfig.load(settings)
    refuse_open_doors(config)
    for name in config.unknown_names:
        alike = get_close_matches(name, BROKER_SETTINGS_BY_NAME, n=1)
        guess = f": did you mean {alike[0]}?" if alike else ""
        raise ConfigError(f"unknown setting {name}{guess}", name=name)
    return config
