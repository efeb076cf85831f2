"""Runs one broker in this process until it is stopped. Called by `floodmark up`."""

from __future__ import annotations

import asyncio
import gc
import logging
import resource
import signal
import sys
from collections.abc import Callable, Mapping
from functools import partial

from floodmark.broker.broker import Broker
from floodmark.config.broker_config import BrokerConfig
from floodmark.config.not_served import kraft_settings, refuse_open_doors, without_effect
from floodmark.config.suggestions import suggested_setting
from floodmark.observability.http import serve_metrics
from floodmark.observability.logs import configure_logging

logger = logging.getLogger(__name__)

SWITCH_INTERVAL_S = 0.001
"""How long a busy thread may block the loop. Python's default is five times that."""

GC_THRESHOLD = 50_000
"""Allocations between two collections of the youngest generation."""


def run(
    properties: Mapping[str, str],
    *,
    metrics_port: int | None = None,
    metrics_host: str | None = None,
    log_format: str = "plain",
    log_level: str = "info",
    ready: Callable[[Broker], None] | None = None,
    make_broker: Callable[..., Broker] = Broker,
) -> int:
    """Starts the broker, calls `ready` once it serves, and returns after it has stopped.

    Returns 0 after a clean shutdown, 1 if its last log folder failed. Tests pass another
    `make_broker`.
    """
    configure_logging(log_format, log_level)
    config = BrokerConfig.load(properties)
    if config.unknown_names:
        names = ", ".join(name + suggested_setting(name) for name in config.unknown_names)
        logger.warning("ignoring unknown settings: %s", names)
    refuse_open_doors(config)
    kraft = kraft_settings(config)
    if kraft:
        logger.info(
            "ignoring KRaft settings (this broker is its own controller): %s", ", ".join(kraft)
        )
    idle = without_effect(config)
    if idle:
        logger.warning("these settings have no effect yet: %s", ", ".join(idle))
    _raise_file_limit()
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        make = partial(make_broker, config)
        return runner.run(_serve(make, metrics_port, metrics_host, ready))


async def _serve(
    make_broker: Callable[..., Broker],
    metrics_port: int | None,
    metrics_host: str | None,
    ready: Callable[[Broker], None] | None,
) -> int:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in _ending_signals():
        loop.add_signal_handler(number, stop.set)
    broker = make_broker(no_folder_left=stop.set)
    await broker.start()
    metrics = None
    try:
        if metrics_port is not None:
            metrics = await serve_metrics(broker, metrics_port, metrics_host)
        _calm_garbage_collector()
        if broker.logs.dirs:
            if ready is not None:
                ready(broker)
            await stop.wait()
        if not broker.logs.dirs:
            logger.critical("stopping, because every log folder has failed")
            return 1
        logger.info("stopping: closing connections, then syncing the logs")
        return 0
    finally:
        if metrics is not None:
            await metrics.close()
        if await broker.stop():
            logger.info("stopped cleanly: logs synced, clean shutdown marker written")
        else:
            logger.warning("no clean shutdown marker: the next start will check the logs")


def _ending_signals() -> list[signal.Signals]:
    """Includes SIGHUP, as in Kafka, unless `nohup` ignores it."""
    numbers = [signal.SIGTERM, signal.SIGINT]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        numbers.append(signal.SIGHUP)
    return numbers


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    """uvloop if available. Without it the broker works, but more slowly."""
    if sys.platform != "win32":
        try:
            import uvloop
        except ImportError:
            logger.info("uvloop is not installed: using asyncio's slower event loop")
        else:
            return uvloop.new_event_loop
    return asyncio.new_event_loop


def _calm_garbage_collector() -> None:
    """A request creates a few dozen objects and no cycles, so the default collects too often.

    Objects created at start-up live as long as the broker and need no scanning.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(GC_THRESHOLD, 20, 20)


def _raise_file_limit() -> None:
    """Each partition holds several open files, so take as many descriptors as the system allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
