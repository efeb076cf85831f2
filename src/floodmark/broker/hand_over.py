"""The first step of a shutdown: hands this broker's partitions over (ControlledShutdown).

Called by broker.py while everything still serves. Asks the controller until nothing is left to
move, or `controlled.shutdown.max.retries` times `.retry.backoff.ms` have passed. Asks again
whenever the cluster changes, because that may be what it waits for.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

from floodmark.broker.controller_client import ControllerClient
from floodmark.clock import Clock
from floodmark.controller.decision import ControllerUnavailable
from floodmark.metadata.cache import MetadataCache
from floodmark.metadata.image import MetadataImage
from floodmark.vocabulary import TopicPartition

logger = logging.getLogger(__name__)

PAUSE_S = 0.05
"""The pause between requests, so that a busy cluster is not asked constantly."""

TOLD_WITHIN_S = 1.0
"""How long brokers have to learn of a decision. Unresponsive ones learn it another way."""


class HandOver:
    def __init__(
        self, broker_id: int, metadata: MetadataCache, controller: ControllerClient, clock: Clock
    ) -> None:
        self._broker_id = broker_id
        self._metadata = metadata
        self._controller = controller
        self._clock = clock
        self._changed = asyncio.Event()

    async def run(self) -> bool:
        """Whether nothing is left that another broker could lead."""
        config = self._metadata.config
        if not config.get_bool("controlled.shutdown.enable") or self._is_alone():
            return False
        self._metadata.subscribe(lambda *_: self._changed.set())
        backoff_ms = config.get_int("controlled.shutdown.retry.backoff.ms")
        retries = config.get_int("controlled.shutdown.max.retries")
        deadline_ms = self._clock.monotonic_ms() + retries * backoff_ms
        while (left_ms := deadline_ms - self._clock.monotonic_ms()) > 0 and not self._is_alone():
            self._changed.clear()
            if await self._ask(left_ms):
                await self._until(lambda: not leads_for_others(self._metadata.image, self._me))
                await self._controller.others_told(TOLD_WITHIN_S)
                return True
            await self._wait(min(backoff_ms, left_ms) / 1000)
        if not self._is_alone():
            logger.warning("stopping without having handed over all partitions")
        return False

    @property
    def _me(self) -> int:
        return self._broker_id

    def _is_alone(self) -> bool:
        """Whether no other broker could take over."""
        return all(broker.id == self._me for broker in self._metadata.image.live_brokers())

    async def _ask(self, timeout_ms: float) -> bool:
        try:
            remaining = await self._controller.controlled_shutdown(timeout_ms)
        except ControllerUnavailable as problem:
            logger.info("could not hand over partitions yet: %s", problem)
            return False
        if remaining:
            logger.info("%d partitions are still led here: %s", len(remaining), _named(remaining))
        return not remaining

    async def _wait(self, timeout_s: float) -> None:
        await asyncio.sleep(min(PAUSE_S, timeout_s))
        try:
            async with asyncio.timeout(timeout_s):
                await self._changed.wait()
        except TimeoutError:
            pass

    async def _until(self, is_so: Callable[[], bool]) -> None:
        """Waits until the controller informs this broker, which then refers clients to others."""
        try:
            async with asyncio.timeout(TOLD_WITHIN_S):
                while not is_so():
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            pass


def leads_for_others(image: MetadataImage, broker_id: int) -> bool:
    """Whether this broker leads a partition with a replica on another live broker."""
    return any(
        partition.leader == broker_id
        and any(r != broker_id and image.is_live(r) for r in partition.replicas)
        for topic in image.topics.values()
        for partition in topic.partitions
    )


def _named(partitions: Sequence[TopicPartition]) -> str:
    shown = ", ".join(f"{topic}-{index}" for topic, index in partitions[:5])
    return shown if len(partitions) <= 5 else f"{shown}, ..."
