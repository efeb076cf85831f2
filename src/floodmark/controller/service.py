"""The controller's shell: takes requests, lets the cores decide, stores, publishes, answers.

Made by broker/ and called by apis/. One writer: requests that wait together are decided one after
the other, each on the image that the one before it left, and stored as one multi that also checks
the controller epoch (KAFKA-6082). The image is published, and every subscriber has applied the
delta, before any of them is answered.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar
from uuid import UUID

from floodmark.clock import Clock
from floodmark.config import BrokerConfig, ConfigError, TopicConfig, topic_config
from floodmark.controller import (
    configs,
    elections,
    features,
    membership,
    partitions,
    reassignment,
    topics,
)
from floodmark.controller.bootstrap import bootstrap
from floodmark.controller.decision import Decision, View
from floodmark.metadata import paths
from floodmark.metadata.adoption import FoundFolder, stray_partitions
from floodmark.metadata.image import (
    CLUSTER_DEFAULT,
    BrokerInfo,
    ConfigResource,
    Delta,
    ImageChange,
    MetadataImage,
    difference,
)
from floodmark.metadata.loader import Identity, load_identity, load_image
from floodmark.metadata.store import BadVersion, Check, Operation, Store, StoreError
from floodmark.occurrences import Occurrences
from floodmark.wire.errors import ErrorCode

logger = logging.getLogger(__name__)

Subscriber = Callable[[MetadataImage, Delta], Awaitable[None] | None]
A = TypeVar("A")

# A batch of waiting requests is closed at this size, so that no commit (and no slice of the loop
# spent on preparing it) grows with the length of the queue.
MAX_OPERATIONS_PER_COMMIT = 5000


class ControllerUnavailable(Exception):
    """A change could not be stored; `error_code` is what a client should be told."""

    def __init__(self, error_code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.error_code = error_code


@dataclass(slots=True)
class _Waiting:
    """A request in the queue: how to decide it, and who waits for the answer."""

    decide: Callable[[View], Decision[Any]]
    done: asyncio.Future[Any]
    answer: Any = None


@dataclass(frozen=True, slots=True)
class StartReport:
    """What the start found out and people should be told."""

    adopted_topics: list[str]
    stray_partitions: list[tuple[str, int]]
    ignored_settings: tuple[str, ...]


class ControllerService:
    """`image` and `config` are the current ones; they are replaced, never changed in place."""

    def __init__(
        self,
        store: Store,
        config: BrokerConfig,
        clock: Clock,
        chance: random.Random | None = None,
    ) -> None:
        self.image = MetadataImage()
        self.config = config
        self._store = store
        self._clock = clock
        self._chance = chance or random.SystemRandom()
        self._subscribers: list[Subscriber] = []
        self._queue: asyncio.Queue[_Waiting] = asyncio.Queue()
        self._writer: asyncio.Task[None] | None = None
        self._epoch_version = 0
        self._must_reload = False
        self._failures = Occurrences()

    # -- life -----------------------------------------------------------------------------------

    def subscribe(self, subscriber: Subscriber) -> None:
        """`subscriber` gets every delta, first the one from nothing to the image at the start."""
        self._subscribers.append(subscriber)

    async def start(self, broker: BrokerInfo, found: FoundFolder | None = None) -> StartReport:
        """Open the store, become the controller, register the broker, publish the first image.

        `broker.broker_epoch` is ignored: the store gives it. Raises ConfigError when the log
        folders belong to another cluster than the store.
        """
        found = found or FoundFolder()
        await self._store.open()
        identity = await load_identity(self._store)
        _check_same_cluster(identity, found)
        first = bootstrap(
            identity,
            await self._persistent_paths(),
            replace(broker, supported_features=features.SUPPORTED_FEATURES),
            found,
            self._new_id,
            self._clock.now_ms(),
        )
        await self._store.multi(first.operations)
        self._epoch_version = first.controller_epoch_version
        await self._lead_from_store(broker.id)
        self._writer = asyncio.create_task(self._write_loop(), name="controller-writer")
        return StartReport(
            first.adopted, stray_partitions(self.image, found), self.config.ignored_dynamic
        )

    async def stop(self) -> None:
        """Finish what is queued, leave the cluster, close the store."""
        if self._writer is not None:
            await self._queue.join()
            self._writer.cancel()
            await asyncio.gather(self._writer, return_exceptions=True)
            self._writer = None
        await self._store.close()

    @property
    def is_running(self) -> bool:
        return self._writer is not None

    def topic_config(self, topic: str) -> TopicConfig:
        """The settings in force for a topic."""
        return topic_config(self.config, self.image.config("topic", topic))

    # -- requests -------------------------------------------------------------------------------

    async def create_topics(
        self, requests: Sequence[topics.NewTopic], *, validate_only: bool = False
    ) -> list[topics.CreatedTopic]:
        return await self._submit(
            lambda view: topics.create_topics(view, requests, validate_only=validate_only)
        )

    async def delete_topics(self, refs: Sequence[topics.TopicRef]) -> list[topics.DeletedTopic]:
        return await self._submit(lambda view: topics.delete_topics(view, refs))

    async def create_partitions(
        self, requests: Sequence[partitions.MorePartitions], *, validate_only: bool = False
    ) -> list[partitions.GrownTopic]:
        return await self._submit(
            lambda view: partitions.create_partitions(view, requests, validate_only=validate_only)
        )

    async def alter_configs(
        self, requests: Sequence[configs.ConfigReplacement], *, validate_only: bool = False
    ) -> list[configs.ConfigAnswer]:
        return await self._submit(
            lambda view: configs.alter_configs(view, requests, validate_only=validate_only)
        )

    async def incremental_alter_configs(
        self, requests: Sequence[configs.ConfigAlteration], *, validate_only: bool = False
    ) -> list[configs.ConfigAnswer]:
        return await self._submit(
            lambda view: configs.incremental_alter_configs(
                view, requests, validate_only=validate_only
            )
        )

    async def elect_leaders(
        self,
        election_type: elections.ElectionType,
        wanted: list[tuple[str, int]] | None,
    ) -> list[elections.ElectionAnswer]:
        return await self._submit(lambda view: elections.elect_leaders(view, election_type, wanted))

    async def reassign_partitions(
        self, wanted: Sequence[reassignment.Reassignment], *, allow_factor_change: bool
    ) -> list[reassignment.ReassignmentAnswer]:
        return await self._submit(
            lambda view: reassignment.reassign_partitions(
                view, wanted, allow_factor_change=allow_factor_change
            )
        )

    async def allocate_producer_ids(self, broker_id: int) -> features.ProducerIdBlock:
        return await self._submit(lambda view: features.allocate_producer_ids(view, broker_id))

    async def update_features(
        self, updates: Sequence[features.FeatureUpdate], *, validate_only: bool = False
    ) -> list[features.FeatureAnswer]:
        return await self._submit(
            lambda view: features.update_features(view, updates, validate_only=validate_only)
        )

    async def _submit(self, decide: Callable[[View], Decision[A]]) -> A:
        if self._writer is None:
            raise ControllerUnavailable(ErrorCode.NOT_CONTROLLER, "the controller is not running")
        waiting = _Waiting(decide, asyncio.get_running_loop().create_future())
        self._queue.put_nowait(waiting)
        answer: A = await waiting.done
        return answer

    # -- the one writer -------------------------------------------------------------------------

    async def _write_loop(self) -> None:
        while True:
            batch = [await self._queue.get()]
            try:
                await self._write_batch(batch)
            except Exception as error:  # noqa: BLE001 - one bad batch must not end all writing
                self._tell("a change of metadata failed", error)
                _fail(batch, error)
            finally:
                for _ in batch:
                    self._queue.task_done()

    async def _write_batch(self, batch: list[_Waiting]) -> None:
        """Decide `batch` and whatever waits behind it, store it at once, publish, answer."""
        if self._must_reload:
            await self._reload()
        image, config, touched = self.image, self.config, ImageChange()
        operations: list[Operation] = []
        position = 0
        while position < len(batch):
            waiting = batch[position]
            position += 1
            decision = self._decide(waiting, self._view(image, config))
            if decision is not None:
                waiting.answer = decision.answer
                operations += decision.operations
                image = image.apply(decision.change)
                touched = touched.then(decision.change)
                if _concerns_brokers(decision.change.configs):
                    config = self._config_of(image)
            if len(operations) < MAX_OPERATIONS_PER_COMMIT and not self._queue.empty():
                # Large decisions are made in slices, so that the loop can serve others between
                # them.
                await asyncio.sleep(0)
                batch.append(self._queue.get_nowait())
        if operations:
            await self._store_all(operations)
            await self._publish(image, difference(self.image, image, touched))
        for waiting in batch:
            if not waiting.done.done():
                waiting.done.set_result(waiting.answer)

    def _decide(self, waiting: _Waiting, view: View) -> Decision[Any] | None:
        try:
            return waiting.decide(view)
        except Exception as error:  # noqa: BLE001 - the others are not to blame
            self._tell("a request to the controller failed", error)
            _fail([waiting], error)
            return None

    def _tell(self, what: str, error: Exception) -> None:
        times = self._failures.worth_telling(f"{what} {error!r}")
        if times:
            is_defect = not isinstance(error, ControllerUnavailable)
            text = "%s (%d times by now): %s"
            logger.error(text, what, times, error, exc_info=error if is_defect else None)

    async def _store_all(self, operations: list[Operation]) -> None:
        check = Check(paths.CONTROLLER_EPOCH, self._epoch_version)
        try:
            await self._store.multi([check, *operations])
        except StoreError as error:
            # Whether it was stored is not known, or our picture is old: read before writing again.
            self._must_reload = True
            if isinstance(error, BadVersion) and error.path == paths.CONTROLLER_EPOCH:
                code, what = ErrorCode.NOT_CONTROLLER, "another broker is the controller by now"
            else:
                code, what = ErrorCode.KAFKA_STORAGE_ERROR, "the change could not be stored"
            raise ControllerUnavailable(code, f"{what}: {error}") from error

    async def _publish(self, image: MetadataImage, delta: Delta) -> None:
        self.image = image
        if _concerns_brokers(delta.changed_configs):
            self.config = self._config_of(image)
        if delta.is_empty:
            return
        for subscriber in self._subscribers:
            applied = subscriber(image, delta)
            if applied is not None:
                await applied

    # -- reading the store ----------------------------------------------------------------------

    async def _lead_from_store(self, broker_id: int) -> None:
        """Take the stored image, and let this broker lead again what it led."""
        image = await load_image(self._store)
        self.config = self._config_of(image)
        registered = membership.broker_registered(
            self._view(image, self.config), image.brokers[broker_id]
        )
        if registered.operations:
            await self._store_all(list(registered.operations))
        image = image.apply(registered.change)
        await self._publish(image, difference(MetadataImage(), image))

    async def _reload(self) -> None:
        try:
            image = await load_image(self._store)
        except StoreError as error:
            raise ControllerUnavailable(
                ErrorCode.KAFKA_STORAGE_ERROR, f"the metadata cannot be read: {error}"
            ) from error
        self._must_reload = False
        await self._publish(image, difference(self.image, image))

    async def _persistent_paths(self) -> set[str]:
        found = {path for path in paths.PERSISTENT_PATHS if path.count("/") == 1}
        existing = {f"/{name}" for name in await self._store.children("/")} & found
        for parent in sorted(existing):
            existing |= {f"{parent}/{name}" for name in await self._store.children(parent)}
        return existing

    def _config_of(self, image: MetadataImage) -> BrokerConfig:
        return self.config.with_dynamic(
            image.config("broker", CLUSTER_DEFAULT),
            image.config("broker", str(self.config.node_id)),
        )

    def _view(self, image: MetadataImage, config: BrokerConfig) -> View:
        return View(image, config, self._chance.randrange, self._new_id)

    def _new_id(self) -> UUID:
        """A random id. As in Kafka its text never begins with a dash, which tools take for an
        option.
        """
        while True:
            new = UUID(int=self._chance.getrandbits(128), version=4)
            if not paths.encode_id(new).startswith("-"):
                return new


def _check_same_cluster(identity: Identity, found: FoundFolder) -> None:
    """Store and log folders must belong together, as far as the folders know."""
    if None not in (identity.cluster_id, found.cluster_id) and (
        identity.cluster_id != found.cluster_id
    ):
        raise ConfigError(
            f"the log folders belong to cluster {found.cluster_id}, but the metadata file to "
            f"cluster {identity.cluster_id}",
            name="log.dirs",
            hint="Name the folders that belong together in log.dirs",
        )


def _concerns_brokers(resources: Iterable[ConfigResource]) -> bool:
    return any(resource.kind == "broker" for resource in resources)


def _fail(batch: Sequence[_Waiting], error: Exception) -> None:
    for waiting in batch:
        if not waiting.done.done():
            waiting.done.set_exception(error)
