"""The controller: accepts requests, follows the brokers, and publishes decisions.

Created by broker/cluster_membership.py and called by apis/. It works while this broker is elected,
from `stand` to `resign`. Every change goes through the one writer (`writer.py`), which runs the
cores and stores their decisions. Then the controller sends them to the other brokers
(`channels.py`) and publishes the image on this one. It answers requests once every subscriber of
the cache has applied the delta.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import partial

from floodmark.clock import Clock
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
from floodmark.controller.decision import (
    ControllerUnavailable,
    Decision,
    Refusal,
    View,
    then,
)
from floodmark.controller.election import candidacy
from floodmark.controller.instructions import farewells, instructions
from floodmark.controller.liveness import Liveness, UntilGone
from floodmark.controller.lost_replica_watch import LostHere, LostReplicaWatch
from floodmark.controller.writer import MetadataWriter
from floodmark.metadata import paths
from floodmark.metadata.cache import MetadataCache
from floodmark.metadata.image import BrokerInfo, ImageChange, MetadataImage, difference
from floodmark.metadata.loader import load_brokers, load_identity, load_stored
from floodmark.metadata.store import (
    BadVersion,
    Delete,
    NodeExists,
    Store,
    StoreError,
    StoreUnavailable,
)
from floodmark.security.acls import Acl, AclFilter
from floodmark.supervised import repeat
from floodmark.vocabulary import TopicPartition
from floodmark.wire.numbers import ElectionType

logger = logging.getLogger(__name__)

RETRY_S = 0.1
"""The pause after the store could not be read or written."""


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
        self._send = send
        # Our own replicas in failed log folders; set before `stand`.
        self.lost_here: LostHere = frozenset
        self._liveness = Liveness(broker_id, until_gone, send, self.broker_died, self._broker_lives)
        self._brokers_changed = asyncio.Event()
        self._writer = MetadataWriter(
            store, cache, chance, self._publish, self._brokers_changed.set
        )
        self._tasks: list[asyncio.Task[None]] = []
        # Whether somebody else may have created topics.
        self._must_look_for_topics = False
        self._begin_reign()

    # -- elected or not -------------------------------------------------------------------------

    @property
    def is_active(self) -> bool:
        """Whether this broker is the controller."""
        return self._writer.is_running

    async def stand(self) -> bool:
        """Stands for election. Returns True once this broker is the controller and has read the
        cluster from the store and published it."""
        identity = await load_identity(self._store)
        noted = await self._known_to_last_controller(identity.controller_epoch)
        bid = candidacy(identity, self._broker_id, self._clock.now_ms())
        try:
            await self._store.multi(bid.operations)
        except (NodeExists, BadVersion):
            return False
        except StoreUnavailable:
            # The response was lost, but we may have won: read the store to find out.
            await self._store.synchronize()
            controller = await self._store.get(paths.CONTROLLER)
            if not bid.has_won(controller, await self._store.get(paths.CONTROLLER_EPOCH)):
                raise
        self._writer.begin(bid.epoch_version)
        await self._take_over(noted)
        self._writer.start()
        self._tasks = [
            asyncio.create_task(self._watch_brokers(), name="controller-watcher"),
            asyncio.create_task(self._rebalance_leaders(), name="leader-rebalance"),
            asyncio.create_task(self._watch_log_folders(), name="log-folder-watcher"),
        ]
        self._watch_processes(self._cache.image)
        return True

    async def resign(self) -> None:
        """Finishes queued requests, then decides nothing more."""
        if self.is_active:
            await self._writer.drained()
            self._stop()
        await self._liveness.closed()

    def deposed(self) -> None:
        """Another broker is now the controller. Stops all decisions and instructions."""
        if self.is_active:
            logger.warning("another broker is now the controller")
            self._stop()
            self._writer.refuse_queued()

    def _stop(self) -> None:
        self._writer.stop()
        for task in self._tasks:
            task.cancel()
        self._channels.close()
        self._liveness.close()

    async def _take_over(self, noted: bytes | None) -> None:
        """Reads the cluster from the store, handles broker changes since the last controller, and
        sends everything to all brokers. `noted` lists the brokers that controller knew."""
        stored, void_paths = await load_stored(self._store)
        known = known_brokers.assumed(stored) if noted is None else known_brokers.recall(noted)
        known = known_brokers.reachable(known, self._cache.image.brokers)
        image = replace(stored, brokers=known_brokers.still_there(known, stored.brokers))
        view = self._writer.view(image, self._cache.config_of(stored))
        noticed = membership.brokers_changed(view, stored.brokers)
        view, decision = then(view, Decision(None), noticed)
        remembered = known_brokers.remember(view.image.brokers)
        await self._writer.store([*map(Delete, void_paths), *decision.operations, remembered])
        self._begin_reign()
        await self._publish(MetadataImage(), image.apply(decision.change), None)

    def _begin_reign(self) -> None:
        self._lost_replicas = LostReplicaWatch(
            self._broker_id, self._store, self._cache, self._writer.submit, self.lost_here
        )
        self._channels = BrokerChannels(self._send, self.deposed, self._lost_replicas.answered)

    async def _known_to_last_controller(self, controller_epoch: int) -> bytes | None:
        """None after a Kafka controller, which writes no such list, so ours would be outdated."""
        if controller_epoch == 0:
            return b""
        last = await self._store.get(paths.LAST_REIGN)
        known = await self._store.get(paths.KNOWN_BROKERS)
        was_ours = last is not None and last.data in (b"", str(controller_epoch).encode())
        return known.data if was_ours and known is not None and known.data else None

    async def _watch_brokers(self) -> None:
        """Follows registrations. Each round handles all changes so far."""
        changed = self._brokers_changed
        stops = [self._store.watch(paths.BROKER_IDS, lambda _: changed.set())]
        if not self._store.watches_below:
            stops.append(self._store.watch(paths.TOPICS, lambda _: self._topics_changed()))
            self._must_look_for_topics = True
        # Brokers and topics may have come or gone since the store was read.
        changed.set()
        try:
            await repeat("controller-watcher", self._process_changes)
        finally:
            for stop in stops:
                stop()

    async def _process_changes(self) -> None:
        await self._brokers_changed.wait()
        self._brokers_changed.clear()
        try:
            await self._look_at_brokers()
        except BaseException:
            self._brokers_changed.set()
            raise

    def _topics_changed(self) -> None:
        self._must_look_for_topics = True
        self._brokers_changed.set()

    async def _look_for_topics(self) -> None:
        """On ZooKeeper, Kafka's brokers create internal topics themselves, as a node without
        states. The controller must notice and complete them."""
        if not self._must_look_for_topics:
            return
        # First, because more may come while we look.
        self._must_look_for_topics = False
        try:
            names = set(await self._store.children(paths.TOPICS))
            unknown = await self._writer.submit(lambda v: Decision(names - v.image.topics.keys()))
        except BaseException:
            self._must_look_for_topics = True
            raise
        if unknown:
            self._writer.reload()

    async def _look_at_brokers(self) -> None:
        try:
            await self._look_for_topics()
            registered = await load_brokers(self._store)
            await self._writer.submit(lambda view: membership.brokers_changed(view, registered))
            await self._finish_begun()
            listener = self._cache.config.inter_broker_listener_name
            self._liveness.question(self._cache.image, registered, listener)
        except (StoreError, ControllerUnavailable) as problem:
            self._writer.report("could not process broker changes yet", problem)
            await asyncio.sleep(RETRY_S)
            self._brokers_changed.set()

    async def _watch_log_folders(self) -> None:
        stop = self._lost_replicas.start()
        try:
            await repeat("log-folder-watcher", self._process_lost_replicas)
        finally:
            stop()

    async def _process_lost_replicas(self) -> None:
        try:
            await self._lost_replicas.step(self._channels)
        except (StoreError, ControllerUnavailable) as problem:
            self._writer.report("could not store the failure of log folders yet", problem)
            await asyncio.sleep(RETRY_S)

    async def _finish_begun(self) -> None:
        """Completes what another controller or a failed multi left unfinished."""
        for topic in unfinished.unfinished_topics(self._cache.image):
            await self._writer.submit(
                partial(unfinished.finish_creation, topic=topic, present=await self._nodes(topic))
            )
        if self._writer.must_finish:
            for topic in await self._store.children(paths.DELETED_TOPICS):
                logger.info("finishing the deletion of topic %s", topic)
                await self._writer.submit(
                    partial(
                        unfinished.finish_deletion, topic=topic, present=await self._nodes(topic)
                    )
                )
            # Two multis may have split the last step of a move.
            await self._writer.submit(reassignment.complete_all)
            self._writer.must_finish = False

    async def _nodes(self, topic: str) -> Collection[str]:
        return (await self._store.read_tree(paths.topic_path(topic))).keys()

    async def refresh(self) -> None:
        """Reads the store again after somebody else has written to it. Kafka's brokers do so when
        they change settings."""
        before = self._writer.view(self._cache.image, self._cache.config)
        self._writer.reload()
        await self._writer.submit(lambda view: rebalance.minimum_changed(before, view))

    async def broker_died(self, broker: BrokerInfo) -> None:
        """The broker's process is gone. Moves its partitions at once, before its session ends."""
        await self._verdict(
            lambda view: membership.broker_died(view, broker.id, broker.broker_epoch)
        )

    async def _broker_lives(self, broker: BrokerInfo) -> None:
        await self._verdict(lambda view: membership.broker_lives(view, broker))

    async def _verdict(self, decide: Callable[[View], Decision[None]]) -> None:
        try:
            while self.is_active:
                try:
                    await self._writer.submit(decide)
                    return
                except ControllerUnavailable as problem:
                    self._writer.report(
                        "could not store that a broker has died or returned", problem
                    )
                    await asyncio.sleep(RETRY_S)
        finally:
            # A broker considered dead must be asked again. Publishing cancels this very task.
            self._brokers_changed.set()

    async def _rebalance_leaders(self) -> None:
        """Periodically returns leadership to preferred replicas."""
        config = self._cache.config
        if not config.get_bool("auto.leader.rebalance.enable"):
            return
        interval_s = config.get_int("leader.imbalance.check.interval.seconds")
        while True:
            await asyncio.sleep(interval_s)
            if len(self._cache.image.brokers) == 1:
                continue
            try:
                moved = await self._writer.submit(rebalance.rebalance_leaders)
            except ControllerUnavailable as problem:
                self._writer.report("could not move leadership to preferred replicas", problem)
            else:
                if moved:
                    logger.info("%d partitions are led by their preferred replicas again", moved)

    # -- requests -------------------------------------------------------------------------------

    async def create_topics(
        self, requests: Sequence[topics.NewTopic], *, validate_only: bool = False
    ) -> list[topics.CreatedTopic]:
        return await self._writer.submit(
            lambda view: topics.create_topics(view, requests, validate_only=validate_only)
        )

    async def delete_topics(self, refs: Sequence[topics.TopicRef]) -> list[topics.DeletedTopic]:
        return await self._writer.submit(lambda view: topics.delete_topics(view, refs))

    async def create_partitions(
        self, requests: Sequence[partitions.MorePartitions], *, validate_only: bool = False
    ) -> list[partitions.GrownTopic]:
        return await self._writer.submit(
            lambda view: partitions.create_partitions(view, requests, validate_only=validate_only)
        )

    async def alter_configs(
        self, requests: Sequence[configs.ConfigReplacement], *, validate_only: bool = False
    ) -> list[configs.ConfigAnswer]:
        return await self._writer.submit(
            lambda view: rebalance.with_consequences(
                view, configs.alter_configs(view, requests, validate_only=validate_only)
            )
        )

    async def incremental_alter_configs(
        self, requests: Sequence[configs.ConfigAlteration], *, validate_only: bool = False
    ) -> list[configs.ConfigAnswer]:
        return await self._writer.submit(
            lambda view: rebalance.with_consequences(
                view,
                configs.incremental_alter_configs(view, requests, validate_only=validate_only),
            )
        )

    async def elect_leaders(
        self,
        election_type: ElectionType,
        wanted: list[TopicPartition] | None,
    ) -> list[elections.ElectionAnswer]:
        return await self._writer.submit(
            lambda view: elections.elect_leaders(view, election_type, wanted)
        )

    async def reassign_partitions(
        self, wanted: Sequence[reassignment.Reassignment], *, allow_factor_change: bool
    ) -> list[reassignment.ReassignmentAnswer]:
        return await self._writer.submit(
            lambda view: reassignment.reassign_partitions(
                view, wanted, allow_factor_change=allow_factor_change
            )
        )

    async def controlled_shutdown(self, broker_id: int, broker_epoch: int) -> ShutdownAnswer:
        return await self._writer.submit(
            lambda view: controlled_shutdown(view, broker_id, broker_epoch)
        )

    async def others_told(self) -> None:
        """Waits until the live brokers have acknowledged all decisions so far."""
        await self._channels.flushed()

    async def alter_partitions(
        self, broker_id: int, broker_epoch: int, proposals: Sequence[isr.IsrProposal]
    ) -> isr.AlterPartitionAnswer:
        return await self._writer.submit(
            lambda view: isr.alter_partitions(view, broker_id, broker_epoch, proposals)
        )

    async def allocate_producer_ids(self, broker_id: int) -> features.ProducerIdBlock:
        return await self._writer.submit(
            lambda view: features.allocate_producer_ids(view, broker_id)
        )

    async def alter_scram_credentials(
        self, changes: Sequence[users.CredentialChange]
    ) -> list[users.CredentialAnswer]:
        return await self._writer.submit(lambda view: users.alter_scram_credentials(view, changes))

    async def update_features(
        self, updates: Sequence[features.FeatureUpdate], *, validate_only: bool = False
    ) -> list[features.FeatureAnswer]:
        return await self._writer.submit(
            lambda view: features.update_features(view, updates, validate_only=validate_only)
        )

    async def create_acls(self, wanted: Sequence[Acl]) -> list[Refusal | None]:
        return await self._writer.submit(lambda view: acls.create_acls(view, wanted))

    async def delete_acls(self, filters: Sequence[AclFilter]) -> list[list[Acl] | Refusal]:
        return await self._writer.submit(lambda view: acls.delete_acls(view, filters))

    async def alter_client_quotas(
        self, alterations: Sequence[quotas.QuotaAlteration], *, validate_only: bool = False
    ) -> list[Refusal | None]:
        return await self._writer.submit(
            lambda view: quotas.alter_client_quotas(view, alterations, validate_only=validate_only)
        )

    async def adopt(self, change: ImageChange) -> None:
        """Publishes delegation tokens, which brokers write to the store themselves, as in Kafka."""
        await self._writer.adopt(change)

    # -- publishing -----------------------------------------------------------------------------

    async def _publish(
        self, before: MetadataImage, image: MetadataImage, touched: ImageChange | None
    ) -> None:
        """Sends a change to the other brokers, in the background, then publishes it on this one."""
        delta = difference(before, image, touched)
        for broker_id in delta.changed_brokers:
            if _is_another_process(before, image, broker_id):
                self._channels.forget(broker_id)
        listener = self._cache.config.inter_broker_listener_name
        told = instructions(before, image, delta, listener, but_not=self._broker_id)
        for broker_id, requests in told.items():
            self._channels.tell(broker_id, requests)
        for broker_id, requests in farewells(before, image, delta, listener).items():
            self._channels.take_leave(broker_id, requests)
        if self.is_active:
            self._watch_processes(image)
        await self._cache.publish(image, touched)

    def _watch_processes(self, image: MetadataImage) -> None:
        self._liveness.follow(image, self._cache.config.inter_broker_listener_name)


def _is_another_process(before: MetadataImage, image: MetadataImage, broker_id: int) -> bool:
    old, new = before.brokers.get(broker_id), image.brokers.get(broker_id)
    return old is None or new is None or new.is_fenced or old.broker_epoch != new.broker_epoch
