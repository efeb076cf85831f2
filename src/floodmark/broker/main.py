"""Runs one broker in this process until it is told to stop. Called by `floodmark up`."""

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
"""How long a busy thread may keep the loop waiting; Python itself allows five times that."""

GC_THRESHOLD = 50_000
"""Allocations between two collections of the young."""


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
    """Starts the broker, calls `ready` once it serves, and returns when it has stopped: 0 in order,
    1 because its last log folder has failed. Tests have another `make_broker`."""
    configure_logging(log_format, log_level)
    config = BrokerConfig.load(properties)
    if config.unknown_names:
        names = ", ".join(name + suggested_setting(name) for name in config.unknown_names)
        logger.warning("these settings are not known and have no effect: %s", names)
    refuse_open_doors(config)
    kraft = kraft_settings(config)
    if kraft:
        logger.info("ignored, because this broker is its own controller: %s", ", ".join(kraft))
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
            logger.critical("stopping, because no log folder can be used any more")
            return 1
        logger.info("stopping: no new connections, then the logs are synced")
        return 0
    finally:
        if metrics is not None:
            await metrics.close()
        if await broker.stop():
            logger.info("stopped in order: logs synced, clean mark written")
        else:
            logger.warning("stopped without a clean mark: the next start checks the logs")


def _ending_signals() -> list[signal.Signals]:
    """Also when its terminal is closed, as with Kafka; unless `nohup` says otherwise."""
    numbers = [signal.SIGTERM, signal.SIGINT]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        numbers.append(signal.SIGHUP)
    return numbers


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    """uvloop where it runs; without it the broker works, only slower."""
    if sys.platform != "win32":
        try:
            import uvloop
        except ImportError:
            logger.info("uvloop is not installed: using asyncio's own loop, which is slower")
        else:
            return uvloop.new_event_loop
    return asyncio.new_event_loop


def _calm_garbage_collector() -> None:
    """A request makes a few dozen objects and no cycles; by default every tenth request would pay
    for a collection. What start-up made lives as long as the broker and need not be looked at."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(GC_THRESHOLD, 20, 20)


def _raise_file_limit() -> None:
    """A partition holds several files open: take as many descriptors as the system lets us."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
