"""The controller's watch over failed log folders, as in Kafka 3.9.

Created by the controller for its term. A broker whose log folder fails leaves a note in the store.
The controller then sends it a LeaderAndIsr for all its partitions, and the response names the lost
replicas. So does every other response to a LeaderAndIsr, for example from a broker that started
with a failed folder.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from floodmark.controller.channels import BrokerChannels
from floodmark.controller.decision import Decision, View
from floodmark.controller.instructions import Instruction, question
from floodmark.controller.lost_replicas import (
    ReplicaReport,
    own_report,
    replicas_reported,
    report_in,
)
from floodmark.metadata import paths
from floodmark.metadata.cache import MetadataCache
from floodmark.metadata.loader import decoding
from floodmark.metadata.store import Delete, Node, Store, StoreUnavailable
from floodmark.vocabulary import TopicPartition
from floodmark.wire.messages.leader_and_isr import LeaderAndIsrRequest

logger = logging.getLogger(__name__)

Submit = Callable[[Callable[[View], Decision[None]]], Awaitable[None]]
LostHere = Callable[[], frozenset[TopicPartition]]


class LostReplicaWatch:
    def __init__(
        self,
        broker_id: int,
        store: Store,
        cache: MetadataCache,
        submit: Submit,
        lost_here: LostHere,
    ) -> None:
        """`submit` queues a decision. `lost_here` returns the lost replicas of this broker."""
        self._broker_id = broker_id
        self._store = store
        self._cache = cache
        self._submit = submit
        self._lost_here = lost_here
        self._reports: deque[ReplicaReport] = deque()
        self._changed = asyncio.Event()

    def answered(self, broker_id: int, request: Instruction, answer: Any) -> None:
        """A broker has responded to one of the controller's requests."""
        if isinstance(request, LeaderAndIsrRequest):
            report = report_in(self._cache.image, broker_id, request, answer)
            if report is not None:
                self._reports.append(report)
                self._changed.set()

    def start(self) -> Callable[[], None]:
        """Starts to watch for notes. Returns a function that stops it."""
        # The controller's own broker gets no instructions.
        self._report_own()
        self._changed.set()
        return self._store.watch(paths.LOG_DIR_EVENTS, lambda _: self._changed.set())

    async def step(self, channels: BrokerChannels) -> None:
        """Waits for news and submits it. After a failure, the next call retries."""
        await self._changed.wait()
        self._changed.clear()
        try:
            await self._read_notes(channels)
            await self._decide_reports()
        except BaseException:
            self._changed.set()
            raise

    async def _decide_reports(self) -> None:
        while self._reports:
            report = self._reports[0]
            await self._submit(partial(_decide, report))
            self._reports.popleft()
            if report.lost:
                text = "broker %d has lost %d replicas in a failed log folder"
                logger.warning(text, report.broker_id, len(report.lost))

    async def _read_notes(self, channels: BrokerChannels) -> None:
        names = await self._store.children(paths.LOG_DIR_EVENTS)
        notes = [f"{paths.LOG_DIR_EVENTS}/{name}" for name in names]
        brokers: set[int] = set()
        for note in notes:
            node = await self._store.get(note)
            if node is not None:
                brokers |= _named_in(node)
        for broker_id in sorted(brokers):
            self._ask(broker_id, channels)
        if notes:
            await self._submit(lambda _: Decision(None, [*map(Delete, notes)]))

    def _ask(self, broker_id: int, channels: BrokerChannels) -> None:
        image = self._cache.image
        if broker_id == self._broker_id:
            self._report_own()
        elif image.is_live(broker_id):
            listener = self._cache.config.inter_broker_listener_name
            channels.tell(broker_id, question(image, broker_id, listener))

    def _report_own(self) -> None:
        self._reports.append(own_report(self._cache.image, self._broker_id, self._lost_here()))


def _named_in(node: Node) -> set[int]:
    """The broker in a note. None if the note is malformed: it is deleted like the others."""
    try:
        with decoding():
            return {paths.decode_log_dir_event(node.data)}
    except StoreUnavailable as problem:
        logger.warning("ignoring a note about log folders: %s", problem)
        return set()


def _decide(report: ReplicaReport, view: View) -> Decision[None]:
    return replicas_reported(view, report)
