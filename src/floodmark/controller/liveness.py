"""The controller watches its brokers' processes for fast failover on proof of death.

Created by the controller for its term. A session ends long after its process, but a port that
refuses connections proves it at once (`broker/process_watch.py`). Electing a new leader is always
safe, because epochs fence the old one. A broker considered dead that responds under its broker
epoch is readmitted.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping

from floodmark.controller import known_brokers
from floodmark.controller.channels import Send
from floodmark.controller.instructions import greeting
from floodmark.metadata.image import BrokerInfo, MetadataImage
from floodmark.wire.errors import ErrorCode

logger = logging.getLogger(__name__)

QUESTION_INTERVAL_S = 1.0
"""How often to ask a broker that was considered dead but is still registered."""

UntilGone = Callable[[str, int], Awaitable[None]]
"""Returns once the process at this host and port is known to be gone."""

Verdict = Callable[[BrokerInfo], Awaitable[None]]


class Liveness:
    """`on_gone` and `on_alive` store the verdict. Both may be cancelled once it is published."""

    def __init__(
        self,
        broker_id: int,
        until_gone: UntilGone | None,
        send: Send,
        on_gone: Verdict,
        on_alive: Verdict,
    ) -> None:
        """Without `until_gone`, only sessions count."""
        self._broker_id = broker_id
        self._until_gone = until_gone
        self._send = send
        self._on_gone = on_gone
        self._on_alive = on_alive
        self._watches: dict[int, tuple[int, asyncio.Task[None]]] = {}
        self._questions: dict[int, tuple[int, asyncio.Task[None]]] = {}
        # Those that have asked for a controlled shutdown.
        self._stopping: set[int] = set()
        self._ending: list[asyncio.Task[None]] = []

    def follow(self, image: MetadataImage, listener: str) -> None:
        """Watches every live broker except our own, each under its current broker epoch."""
        if self._until_gone is None:
            return
        live = {b.id: b for b in image.live_brokers() if b.id != self._broker_id}
        self._stopping = {b.id for b in live.values() if b.is_shutting_down}
        _keep(self._watches, live)
        for broker in live.values():
            endpoint = broker.endpoints.get(listener)
            if broker.id not in self._watches and endpoint is not None:
                watch = self._watch(self._until_gone, broker, endpoint.host, endpoint.port)
                self._watches[broker.id] = (broker.broker_epoch, asyncio.create_task(watch))

    def question(
        self, image: MetadataImage, registered: Mapping[int, BrokerInfo], listener: str
    ) -> None:
        """Asks brokers that were considered dead but still have a session."""
        accused = known_brokers.taken_for_dead(image.brokers, registered)
        _keep(self._questions, accused)
        for broker in accused.values():
            if broker.id not in self._questions:
                asked = self._question(image, broker, listener)
                self._questions[broker.id] = (broker.broker_epoch, asyncio.create_task(asked))

    def close(self) -> None:
        tasks = (*self._watches.values(), *self._questions.values())
        self._ending += [task for _, task in tasks]
        _keep(self._watches, {})
        _keep(self._questions, {})

    async def closed(self) -> None:
        """After `close`, also waits until the connections are closed."""
        ending, self._ending = self._ending, []
        await asyncio.gather(*ending, return_exceptions=True)

    async def _watch(self, until_gone: UntilGone, broker: BrokerInfo, host: str, port: int) -> None:
        await until_gone(host, port)
        if broker.id in self._stopping:
            logger.info("broker %d has stopped", broker.id)
        else:
            logger.warning(
                "broker %d is gone: %s:%d refuses connections. Moving its partitions now, before "
                "its session ends",
                *(broker.id, host, port),
            )
        await self._on_gone(broker)

    async def _question(self, image: MetadataImage, broker: BrokerInfo, listener: str) -> None:
        """A new process on the same port does not respond for the old one's broker epoch."""
        while True:
            await asyncio.sleep(QUESTION_INTERVAL_S)
            try:
                answer = await self._send(broker.id, greeting(image, broker, listener))
            except OSError:
                continue
            if answer.error_code == ErrorCode.NONE:
                logger.warning("broker %d was considered dead, but responds", broker.id)
                await self._on_alive(broker)
                return


def _keep(
    tasks: dict[int, tuple[int, asyncio.Task[None]]], wanted: Mapping[int, BrokerInfo]
) -> None:
    """Cancels tasks for brokers that are no longer wanted or have another epoch."""
    for broker_id, (broker_epoch, task) in list(tasks.items()):
        broker = wanted.get(broker_id)
        if broker is None or broker.broker_epoch != broker_epoch:
            del tasks[broker_id]
            task.cancel()
