"""The controller's only writer: decides queued requests, stores and publishes them, and answers.

Owned by `controller.py`. Requests that wait together are decided one after the other, each on the
image that the previous one left. They are stored as one multi that also checks the controller epoch
(KAFKA-6082), so a controller that was deposed without knowing it writes nothing.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, TypeVar

from floodmark.config import BrokerConfig
from floodmark.controller.cutting import cut
from floodmark.controller.decision import ControllerUnavailable, Decision, View
from floodmark.controller.lost_replicas import carried_over
from floodmark.metadata import acl_nodes, paths, quota_nodes, token_nodes
from floodmark.metadata.cache import MetadataCache, concerns_brokers
from floodmark.metadata.image import ImageChange, MetadataImage
from floodmark.metadata.loader import load_stored
from floodmark.metadata.store import BadVersion, Check, Delete, Operation, Store, StoreError
from floodmark.occurrences import Occurrences, repeated
from floodmark.wire.errors import ErrorCode

logger = logging.getLogger(__name__)

A = TypeVar("A")

Publish: TypeAlias = Callable[[MetadataImage, MetadataImage, ImageChange | None], Awaitable[None]]
"""Takes the image before and after, and what has changed, if known."""

MAX_OPERATIONS_PER_COMMIT = 5000
"""The most operations in one batch of requests, so that commits, and the time to decide them, do
not grow with the queue."""


@dataclass(slots=True)
class _Waiting:
    """A queued request: how to decide it, and the future for its answer."""

    decide: Callable[[View], Decision[Any]]
    done: asyncio.Future[Any]
    answer: Any = None


class MetadataWriter:
    """Call `begin`, `start` and `stop` once per term."""

    def __init__(
        self,
        store: Store,
        cache: MetadataCache,
        chance: random.Random,
        publish: Publish,
        on_reloaded: Callable[[], None],
    ) -> None:
        """Calls `on_reloaded` after reading the store again: brokers may have come or gone."""
        self._store = store
        self._cache = cache
        self._chance = chance
        self._publish = publish
        self._on_reloaded = on_reloaded
        self._queue: asyncio.Queue[_Waiting] = asyncio.Queue()
        self._task: asyncio.Task[None] | None = None
        # The tasks that are publishing, of this term and of an earlier one.
        self._publishing: set[asyncio.Task[None] | None] = set()
        self._epoch_version = 0
        self._must_reload = False
        # Whether an earlier controller or a failed multi may have left an unfinished decision.
        self.must_finish = False
        self._failures = Occurrences()

    @property
    def is_running(self) -> bool:
        return self._task is not None

    def begin(self, epoch_version: int) -> None:
        """Starts a term: `store` checks this version of the controller epoch from now on."""
        self._epoch_version = epoch_version

    def start(self) -> None:
        """Starts writing. The store has been read, and only this writer changes it."""
        self._must_reload, self.must_finish = False, True
        self._task = asyncio.create_task(self._write_loop(), name="controller-writer")

    def stop(self) -> None:
        """Decides nothing more. A change that is being published is still applied to its end: the
        image has it already, so no later delta would bring the rest (KAFKA-9769)."""
        if self._task is not None:
            if self._task not in self._publishing:
                self._task.cancel()
            self._task = None

    async def drained(self) -> None:
        await self._queue.join()

    def refuse_queued(self) -> None:
        while not self._queue.empty():
            _fail([self._queue.get_nowait()], _not_controller_any_more())
            self._queue.task_done()

    def reload(self) -> None:
        """Reads the store again before the next decision."""
        self._must_reload = True

    async def submit(self, decide: Callable[[View], Decision[A]]) -> A:
        if self._task is None:
            raise ControllerUnavailable(ErrorCode.NOT_CONTROLLER, "the controller is not running")
        waiting = _Waiting(decide, asyncio.get_running_loop().create_future())
        self._queue.put_nowait(waiting)
        answer: A = await waiting.done
        return answer

    async def adopt(self, change: ImageChange) -> None:
        """Publishes a change that is already in the store."""
        await self.submit(lambda _: Decision(None, (), change))
        if not self._store.watches_below:
            await self._drop_old_notices()

    async def _write_loop(self) -> None:
        while self._is_current():
            batch = [await self._queue.get()]
            try:
                await self._write_batch(batch)
            except asyncio.CancelledError:
                _fail(batch, _not_controller_any_more())
                raise
            except Exception as error:  # noqa: BLE001 - one bad batch must not end all writing
                self.report("a metadata change failed", error)
                _fail(batch, error)
            finally:
                for _ in batch:
                    self._queue.task_done()

    def _is_current(self) -> bool:
        """Whether the running task is that of the current term. It may have been stopped while it
        published."""
        return self._task is asyncio.current_task()

    async def _write_batch(self, batch: list[_Waiting]) -> None:
        """Decides `batch` and the requests queued behind it, stores all at once, publishes and
        answers."""
        if self._must_reload:
            await self._reload()
            if not self._is_current():
                raise _not_controller_any_more()
        image, touched = await self._decide_and_store(batch)
        if not touched.is_empty:
            await self._publish_to_the_end(image, touched)
        for waiting in batch:
            if not waiting.done.done():
                waiting.done.set_result(waiting.answer)

    async def _decide_and_store(self, batch: list[_Waiting]) -> tuple[MetadataImage, ImageChange]:
        """The image after the decisions, and what they have changed.

        Keeps no operation: there may be ten thousand, and publishing takes long and needs memory.
        """
        image, config, touched = self._cache.image, self._cache.config, ImageChange()
        operations: list[Operation] = []
        position = 0
        while position < len(batch):
            waiting = batch[position]
            position += 1
            decision = self._decide(waiting, self.view(image, config))
            if decision is not None:
                waiting.answer = decision.answer
                operations += decision.operations
                image = image.apply(decision.change)
                touched = touched.then(decision.change)
                if concerns_brokers(decision.change.configs):
                    config = self._cache.config_of(image)
            if len(operations) < MAX_OPERATIONS_PER_COMMIT and not self._queue.empty():
                # Large decisions pause in between, so that the loop can serve others.
                await asyncio.sleep(0)
                batch.append(self._queue.get_nowait())
        if operations:
            notices = self._notices(touched)
            await self.store([*operations, *notices])
            if notices:
                await self._drop_old_notices()
        return image, touched

    def _notices(self, touched: ImageChange) -> list[Operation]:
        """Notices of changed ACLs and settings. New topics need none."""
        if self._store.watches_below:
            return []
        changed = [
            resource
            for resource in touched.configs
            if (resource.kind != "topic" or resource.name not in touched.topics)
            and not quota_nodes.is_folder(resource)
        ]
        return [
            *(paths.config_change(resource) for resource in changed),
            *(acl_nodes.change_notification(pattern) for pattern in touched.acls),
        ]

    async def _drop_old_notices(self) -> None:
        """Deletes old notices. A broker that missed one reads all settings."""
        with suppress(StoreError):
            for folder in (paths.CONFIG_CHANGES, *acl_nodes.CHANGE_FOLDERS, token_nodes.CHANGES):
                names = await self._store.children(folder)
                old = [Delete(f"{folder}/{name}") for name in names[: -paths.NOTICES_KEPT]]
                if old:
                    await self._store.multi(old)

    def _decide(self, waiting: _Waiting, view: View) -> Decision[Any] | None:
        try:
            return waiting.decide(view)
        except Exception as error:  # noqa: BLE001 - the other requests must go on
            self.report("a request to the controller failed", error)
            _fail([waiting], error)
            return None

    def report(self, what: str, error: Exception) -> None:
        times = self._failures.worth_telling(f"{what} {error!r}")
        if times:
            is_defect = not isinstance(error, ControllerUnavailable)
            text = "%s%s: %s"
            exc_info = error if is_defect else None
            logger.log(_level_of(error), text, what, repeated(times), error, exc_info=exc_info)

    async def store(self, operations: list[Operation]) -> None:
        check = Check(paths.CONTROLLER_EPOCH, self._epoch_version)
        try:
            for some in cut(operations, self._store.multi_limit_bytes):
                await self._store.multi([check, *some])
        except StoreError as error:
            # It may or may not have been stored, or our image is outdated: read before writing.
            self._must_reload = self.must_finish = True
            if isinstance(error, BadVersion) and error.path == paths.CONTROLLER_EPOCH:
                code, what = ErrorCode.NOT_CONTROLLER, "another broker is now the controller"
            else:
                code, what = ErrorCode.KAFKA_STORAGE_ERROR, "the change could not be stored"
            raise ControllerUnavailable(code, f"{what}: {error.message}") from error

    async def _reload(self) -> None:
        try:
            # Our server of ZooKeeper may not know yet what we have written through another one.
            await self._store.synchronize()
            image, void_paths = await load_stored(self._store)
        except StoreError as error:
            raise ControllerUnavailable(
                ErrorCode.KAFKA_STORAGE_ERROR, f"the metadata cannot be read: {error.message}"
            ) from error
        if void_paths:
            await self.store([*map(Delete, void_paths)])
        self._must_reload = False
        # Known brokers are those we have processed, not those registered by now.
        known = self._cache.image
        image = carried_over(known, replace(image, brokers=known.brokers))
        await self._publish_to_the_end(image, None)
        self._on_reloaded()

    async def _publish_to_the_end(self, image: MetadataImage, touched: ImageChange | None) -> None:
        task = asyncio.current_task()
        self._publishing.add(task)
        try:
            await self._publish(self._cache.image, image, touched)
        finally:
            self._publishing.discard(task)

    def view(self, image: MetadataImage, config: BrokerConfig) -> View:
        return View(
            image,
            config,
            self._chance.randrange,
            lambda: paths.random_id(self._chance.getrandbits),
        )


def _level_of(error: Exception) -> int:
    """A controller that has been replaced finds that out by its next write. That is no failure."""
    is_replaced = (
        isinstance(error, ControllerUnavailable) and error.error_code is ErrorCode.NOT_CONTROLLER
    )
    return logging.INFO if is_replaced else logging.ERROR


def _not_controller_any_more() -> ControllerUnavailable:
    return ControllerUnavailable(ErrorCode.NOT_CONTROLLER, "no longer the controller")


def _fail(batch: Sequence[_Waiting], error: Exception) -> None:
    for waiting in batch:
        if not waiting.done.done():
            waiting.done.set_exception(error)
