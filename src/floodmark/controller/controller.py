"""The controller: takes requests, lets the cores decide, stores, publishes, answers.

Made by broker/cluster_membership.py and called by apis/. It works while this broker is elected:
`stand` makes it the controller, `resign` ends that. One writer: requests that wait together are
decided one after the other, each on the image that the one before it left, and stored as one multi
that also checks the controller epoch (KAFKA-6082). Then the other brokers are told
(`channels.py`), the image is published to this one, and when every subscriber of the cache has
applied the delta, the requests are answered.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

from floodmark.clock import Clock
from floodmark.config import BrokerConfig
from floodmark.controller import (
    acls,
    configs,
    elections,
    features,
    isr,
    known_brokers,
    membership,
    partitions,
    quotas,
    reassignment,
    rebalance,
    topics,
    unfinished,
    users,
)
from floodmark.controller.channels import BrokerChannels, Send
from floodmark.controller.controlled_shutdown import ShutdownAnswer, controlled_shutdown
from floodmark.controller.cutting import cut
from floodmark.controller.decision import Decision, Refusal, View, then
from floodmark.controller.election import candidacy
from floodmark.controller.instructions import instructions
from floodmark.controller.liveness import Liveness, UntilGone
from floodmark.metadata import acl_nodes, paths, quota_nodes
from floodmark.metadata.cache import MetadataCache, concerns_brokers
from floodmark.metadata.image import BrokerInfo, ImageChange, MetadataImage, difference
from floodmark.metadata.loader import decode_brokers, load_identity, load_stored
from floodmark.metadata.store import (
    BadVersion,
    Check,
    Delete,
    NodeExists,
    Operation,
    Store,
    StoreError,
    StoreUnavailable,
)
from floodmark.occurrences import Occurrences
from floodmark.security.acls import Acl, AclFilter
from floodmark.wire.errors import ErrorCode

logger = logging.getLogger(__name__)

A = TypeVar("A")

# A batch of waiting requests is closed at this size, so that no commit (and no slice of the loop
# spent on preparing it) grows with the length of the queue.
MAX_OPERATIONS_PER_COMMIT = 5000

NOTICES_KEPT = 100
"""Notices of changed settings in the store; Kafka keeps those of the last 15 minutes."""

RETRY_S = 0.1
"""After the store could not be read or written."""


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


class Controller:
    def __init__(
        self,
        broker_id: int,
        store: Store,
        cache: MetadataCache,
        clock: Clock,
        chance: random.Random,
        send: Send,
        until_gone: UntilGone | None = None,
    ) -> None:
        """`send` reaches the other brokers, `until_gone` watches their processes."""
        self._broker_id = broker_id
        self._store = store
        self._cache = cache
        self._clock = clock
        self._chance = chance
        self._send = send
        self._channels = BrokerChannels(send, self.deposed)
        self._liveness = Liveness(broker_id, until_gone, send, self.broker_died, self._broker_lives)
        self._brokers_changed = asyncio.Event()
        self._queue: asyncio.Queue[_Waiting] = asyncio.Queue()
        self._writer: asyncio.Task[None] | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._epoch_version = 0
        self._must_reload = False
        # Whether an earlier controller, or a multi that failed, may have left half a decision.
        self._must_finish = False
        self._failures = Occurrences()

    # -- elected or not -------------------------------------------------------------------------

    @property
    def is_active(self) -> bool:
        """Whether this broker is the controller."""
        return self._writer is not None

    async def stand(self) -> bool:
        """Stand for election. True when this broker has become the controller: it has read the
        cluster from the store, and published it."""
        identity = await load_identity(self._store)
        noted = await self._known_to_last_controller(identity.controller_epoch)
        bid = candidacy(identity, self._broker_id, self._clock.now_ms())
        try:
            await self._store.multi(bid.operations)
        except (NodeExists, BadVersion):
            return False
        except StoreUnavailable:
            # The answer is lost, and with it perhaps a victory: read before judging.
            await self._store.synchronize()
            controller = await self._store.get(paths.CONTROLLER)
            if not bid.has_won(controller, await self._store.get(paths.CONTROLLER_EPOCH)):
                raise
        self._epoch_version = bid.epoch_version
        await self._take_over(noted)
        self._writer = asyncio.create_task(self._write_loop(), name="controller-writer")
        self._tasks = [
            asyncio.create_task(self._watch_brokers(), name="controller-watcher"),
            asyncio.create_task(self._rebalance_leaders(), name="leader-rebalance"),
        ]
        self._watch_processes(self._cache.image)
        return True

    async def resign(self) -> None:
        """Finish what is queued, then decide nothing any more."""
        if self._writer is not None:
            await self._queue.join()
            self._stop(self._writer)
        await self._liveness.closed()

    def deposed(self) -> None:
        """Another broker is the controller by now: nothing more is decided or told here."""
        if self._writer is not None:
            logger.warning("another broker is the controller by now")
            self._stop(self._writer)
            while not self._queue.empty():
                _fail([self._queue.get_nowait()], _not_controller_any_more())
                self._queue.task_done()

    def _stop(self, writer: asyncio.Task[None]) -> None:
        for task in (writer, *self._tasks):
            task.cancel()
        self._channels.close()
        self._liveness.close()
        self._writer = None

    async def _take_over(self, noted: bytes | None) -> None:
        """Read the cluster from the store, deal with what has happened to brokers since a
        controller last looked, and tell everybody everything. `noted` is whom that one knew."""
        stored, void_paths = await load_stored(self._store)
        known = known_brokers.assumed(stored) if noted is None else known_brokers.recall(noted)
        image = replace(stored, brokers=known_brokers.still_there(known, stored.brokers))
        view = self._view(image, self._cache.config_of(stored))
        noticed = membership.brokers_changed(view, stored.brokers)
        view, decision = then(view, Decision(None), noticed)
        view, decision = then(view, decision, reassignment.complete_all(view))
        remembered = known_brokers.remember(view.image.brokers)
        await self._store_all([*map(Delete, void_paths), *decision.operations, remembered])
        self._must_reload, self._must_finish = False, True
        self._channels = BrokerChannels(self._send, self.deposed)
        await self._publish(MetadataImage(), image.apply(decision.change))

    async def _known_to_last_controller(self, controller_epoch: int) -> bytes | None:
        """None when it was one of Kafka's, which leaves no note: ours would be out of date."""
        if controller_epoch == 0:
            return b""
        last = await self._store.get(paths.LAST_REIGN)
        known = await self._store.get(paths.KNOWN_BROKERS)
        was_ours = last is not None and last.data in (b"", str(controller_epoch).encode())
        return known.data if was_ours and known is not None and known.data else None

    async def _watch_brokers(self) -> None:
        """Follows registrations. Each look takes in all that has changed by then."""
        changed = self._brokers_changed
        stop = self._store.watch(paths.BROKER_IDS, lambda _: changed.set())
        # Somebody may have come or gone since the store was read.
        changed.set()
        try:
            while True:
                await changed.wait()
                changed.clear()
                await self._look_at_brokers()
        finally:
            stop()

    async def _look_at_brokers(self) -> None:
        try:
            registered = decode_brokers(await self._store.read_tree(paths.BROKER_IDS))
            await self._submit(lambda view: membership.brokers_changed(view, registered))
            await self._finish_begun()
            listener = self._cache.config.inter_broker_listener_name
            self._liveness.question(self._cache.image, registered, listener)
        except (StoreError, ControllerUnavailable) as problem:
            self._tell("brokers have changed, and that cannot be dealt with yet", problem)
            await asyncio.sleep(RETRY_S)
            self._brokers_changed.set()

    async def _finish_begun(self) -> None:
        """What another controller, or a multi that failed, has left half done."""
        for topic in unfinished.unfinished_topics(self._cache.image):
            await self._submit(
                partial(unfinished.finish_creation, topic=topic, present=await self._nodes(topic))
            )
        if self._must_finish:
            for topic in await self._store.children(paths.DELETED_TOPICS):
                logger.info("finishing the deletion of topic %s", topic)
                await self._submit(
                    partial(
                        unfinished.finish_deletion, topic=topic, present=await self._nodes(topic)
                    )
                )
            self._must_finish = False

    async def _nodes(self, topic: str) -> Collection[str]:
        return (await self._store.read_tree(paths.topic_path(topic))).keys()

    async def refresh(self) -> None:
        """Read the store again: somebody else has written to it, as Kafka's brokers do when they
        are asked to change settings."""
        self._must_reload = True
        await self._submit(lambda _: Decision(None))

    async def broker_died(self, broker: BrokerInfo) -> None:
        """Its process is gone: its partitions move at once, whenever its session ends."""
        await self._verdict(
            lambda view: membership.broker_died(view, broker.id, broker.broker_epoch)
        )

    async def _broker_lives(self, broker: BrokerInfo) -> None:
        await self._verdict(lambda view: membership.broker_lives(view, broker))

    async def _verdict(self, decide: Callable[[View], Decision[None]]) -> None:
        try:
            while self.is_active:
                try:
                    await self._submit(decide)
                    return
                except ControllerUnavailable as problem:
                    self._tell("a broker has died or lives, and that cannot be stored", problem)
                    await asyncio.sleep(RETRY_S)
        finally:
            # Who is taken for dead must be asked again. Publishing cancels this very task.
            self._brokers_changed.set()

    async def _rebalance_leaders(self) -> None:
        """Now and then gives leaderships back to the replicas that are preferred."""
        config = self._cache.config
        if not config.get_bool("auto.leader.rebalance.enable"):
            return
        interval_s = config.get_int("leader.imbalance.check.interval.seconds")
        while True:
            await asyncio.sleep(interval_s)
            if len(self._cache.image.brokers) == 1:
                continue
            try:
                moved = await self._submit(rebalance.rebalance_leaders)
            except ControllerUnavailable as problem:
                self._tell("leaders could not be moved to their preferred replicas", problem)
            else:
                if moved:
                    logger.info("%d partitions are led by their preferred replicas again", moved)

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
            lambda view: rebalance.with_elections(
                view, configs.alter_configs(view, requests, validate_only=validate_only)
            )
        )

    async def incremental_alter_configs(
        self, requests: Sequence[configs.ConfigAlteration], *, validate_only: bool = False
    ) -> list[configs.ConfigAnswer]:
        return await self._submit(
            lambda view: rebalance.with_elections(
                view,
                configs.incremental_alter_configs(view, requests, validate_only=validate_only),
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

    async def controlled_shutdown(self, broker_id: int, broker_epoch: int) -> ShutdownAnswer:
        return await self._submit(lambda view: controlled_shutdown(view, broker_id, broker_epoch))

    async def others_told(self) -> None:
        """Waits until all that was decided so far is answered by the brokers that are there."""
        await self._channels.flushed()

    async def alter_partitions(
        self, broker_id: int, broker_epoch: int, proposals: Sequence[isr.IsrProposal]
    ) -> isr.AlterPartitionAnswer:
        return await self._submit(
            lambda view: isr.alter_partitions(view, broker_id, broker_epoch, proposals)
        )

    async def allocate_producer_ids(self, broker_id: int) -> features.ProducerIdBlock:
        return await self._submit(lambda view: features.allocate_producer_ids(view, broker_id))

    async def alter_scram_credentials(
        self, changes: Sequence[users.CredentialChange]
    ) -> list[users.CredentialAnswer]:
        return await self._submit(lambda view: users.alter_scram_credentials(view, changes))

    async def update_features(
        self, updates: Sequence[features.FeatureUpdate], *, validate_only: bool = False
    ) -> list[features.FeatureAnswer]:
        return await self._submit(
            lambda view: features.update_features(view, updates, validate_only=validate_only)
        )

    async def create_acls(self, wanted: Sequence[Acl]) -> list[Refusal | None]:
        return await self._submit(lambda view: acls.create_acls(view, wanted))

    async def delete_acls(self, filters: Sequence[AclFilter]) -> list[list[Acl] | Refusal]:
        return await self._submit(lambda view: acls.delete_acls(view, filters))

    async def alter_client_quotas(
        self, alterations: Sequence[quotas.QuotaAlteration], *, validate_only: bool = False
    ) -> list[Refusal | None]:
        return await self._submit(
            lambda view: quotas.alter_client_quotas(view, alterations, validate_only=validate_only)
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
            except asyncio.CancelledError:
                _fail(batch, _not_controller_any_more())
                raise
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
        image, config, touched = self._cache.image, self._cache.config, ImageChange()
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
                if concerns_brokers(decision.change.configs):
                    config = self._cache.config_of(image)
            if len(operations) < MAX_OPERATIONS_PER_COMMIT and not self._queue.empty():
                # Large decisions are made in slices, so that the loop can serve others between
                # them.
                await asyncio.sleep(0)
                batch.append(self._queue.get_nowait())
        if operations:
            notices = self._notices(touched)
            await self._store_all([*operations, *notices])
            if notices:
                await self._drop_old_notices()
            await self._publish(self._cache.image, image, touched)
        for waiting in batch:
            if not waiting.done.done():
                waiting.done.set_result(waiting.answer)

    def _notices(self, touched: ImageChange) -> list[Operation]:
        """Of ACLs and settings; new topics are noticed themselves."""
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
        """Whoever missed one of them reads all settings."""
        with suppress(StoreError):
            for folder in (paths.CONFIG_CHANGES, *acl_nodes.CHANGE_FOLDERS):
                names = await self._store.children(folder)
                old = [Delete(f"{folder}/{name}") for name in names[:-NOTICES_KEPT]]
                if old:
                    await self._store.multi(old)

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
            for some in cut(operations, self._store.multi_limit_bytes):
                await self._store.multi([check, *some])
        except StoreError as error:
            # Whether it was stored is not known, or our picture is old: read before writing again.
            self._must_reload = self._must_finish = True
            if isinstance(error, BadVersion) and error.path == paths.CONTROLLER_EPOCH:
                code, what = ErrorCode.NOT_CONTROLLER, "another broker is the controller by now"
            else:
                code, what = ErrorCode.KAFKA_STORAGE_ERROR, "the change could not be stored"
            raise ControllerUnavailable(code, f"{what}: {error.message}") from error

    async def _reload(self) -> None:
        try:
            image, void_paths = await load_stored(self._store)
        except StoreError as error:
            raise ControllerUnavailable(
                ErrorCode.KAFKA_STORAGE_ERROR, f"the metadata cannot be read: {error.message}"
            ) from error
        if void_paths:
            await self._store_all([*map(Delete, void_paths)])
        self._must_reload = False
        # Whom we know is what we have dealt with, not who is registered by now.
        image = replace(image, brokers=self._cache.image.brokers)
        await self._publish(self._cache.image, image)
        self._brokers_changed.set()

    async def _publish(
        self, before: MetadataImage, image: MetadataImage, touched: ImageChange | None = None
    ) -> None:
        """Tell the other brokers, then this one. What is told is sent in the background."""
        delta = difference(before, image, touched)
        for broker_id in delta.changed_brokers:
            if _is_another_process(before, image, broker_id):
                self._channels.forget(broker_id)
        listener = self._cache.config.inter_broker_listener_name
        told = instructions(before, image, delta, listener, but_not=self._broker_id)
        for broker_id, requests in told.items():
            self._channels.tell(broker_id, requests)
        if self.is_active:
            self._watch_processes(image)
        await self._cache.publish(image, touched)

    def _watch_processes(self, image: MetadataImage) -> None:
        self._liveness.follow(image, self._cache.config.inter_broker_listener_name)

    def _view(self, image: MetadataImage, config: BrokerConfig) -> View:
        return View(
            image,
            config,
            self._chance.randrange,
            lambda: paths.random_id(self._chance.getrandbits),
        )


def _is_another_process(before: MetadataImage, image: MetadataImage, broker_id: int) -> bool:
    old, new = before.brokers.get(broker_id), image.brokers.get(broker_id)
    return old is None or new is None or new.is_fenced or old.broker_epoch != new.broker_epoch


def _not_controller_any_more() -> ControllerUnavailable:
    return ControllerUnavailable(ErrorCode.NOT_CONTROLLER, "not the controller any more")


def _fail(batch: Sequence[_Waiting], error: Exception) -> None:
    for waiting in batch:
        if not waiting.done.done():
            waiting.done.set_exception(error)
