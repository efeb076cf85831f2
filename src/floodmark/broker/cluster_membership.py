"""How this broker joins, stays in and leaves the cluster: store, registration, election.

Created by broker.py. The first broker founds the cluster. Each broker registers, then stands for
election. Brokers that lose follow the store and stand again when the controller is gone. A broker
that has lost its session registers again, with a new broker epoch.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeAlias
from uuid import UUID

from floodmark.broker.controller_watch import ControllerWatch
from floodmark.broker.settings_reader import SettingsReader, TopicSettings, settings_of_topics
from floodmark.clock import Clock
from floodmark.config import ConfigError
from floodmark.controller.channels import Send
from floodmark.controller.controller import Controller
from floodmark.controller.decision import ControllerUnavailable
from floodmark.controller.features import SUPPORTED_FEATURES
from floodmark.controller.founding import found_cluster
from floodmark.controller.liveness import UntilGone
from floodmark.metadata import acl_nodes, paths, token_nodes
from floodmark.metadata.adoption import FoundFolder, stray_partitions
from floodmark.metadata.cache import MetadataCache
from floodmark.metadata.image import (
    BrokerInfo,
    ConfigResource,
    Delta,
    ImageChange,
    MetadataImage,
)
from floodmark.metadata.loader import (
    Identity,
    decoding,
    load_identity,
    load_image,
    load_settings,
    load_tokens,
)
from floodmark.metadata.registration import AlreadyRegistered, Registration
from floodmark.metadata.store import (
    Delete,
    NodeExists,
    Operation,
    SessionEvent,
    Store,
    StoreError,
)
from floodmark.occurrences import Occurrences, repeated
from floodmark.replication.control_fence import ControlFence
from floodmark.supervised import repeat
from floodmark.vocabulary import NO_LEADER, TopicPartition

logger = logging.getLogger(__name__)

FOUNDING_TRIES = 20
"""Brokers that start together race to found the cluster: all but one must retry."""

RETRY_S = 0.1

SETTINGS_WITHIN_S = 1.0
"""How long to wait for new topics' settings. Nothing else from the controller is applied
meanwhile."""

Settings: TypeAlias = Mapping[ConfigResource, Mapping[str, str]]

NOTICED = (
    paths.CONFIG_CHANGES,
    *acl_nodes.ACL_ROOTS,
    *acl_nodes.CHANGE_FOLDERS,
    token_nodes.TOKENS,
    token_nodes.CHANGES,
)
"""Where changes to settings, ACLs and tokens appear, in either store."""


@dataclass(frozen=True, slots=True)
class StartReport:
    """Findings of the start that users should know."""

    adopted_topics: list[str]
    stray_partitions: list[TopicPartition]
    ignored_settings: tuple[str, ...]


class ClusterMembership:
    """Call `join` and `leave` once each. `fence` checks requests of other controllers."""

    def __init__(
        self,
        broker_id: int,
        store: Store,
        cache: MetadataCache,
        clock: Clock,
        send: Send,
        chance: random.Random | None = None,
        until_gone: UntilGone | None = None,
    ) -> None:
        """`until_gone` watches the processes of other brokers. Without it, only sessions count."""
        self._broker_id = broker_id
        self._store = store
        self._cache = cache
        self._chance = chance or random.SystemRandom()
        self._registration = Registration(store, clock)
        self._me: BrokerInfo | None = None
        self._changed = asyncio.Event()
        self._settings = SettingsReader(store)
        # Topics whose settings must be read.
        self._new_topics: set[str] = set()
        self._is_session_lost = False
        # The zxid of the /controller node whose past deletions we know.
        self._reign = -1
        # An image read before a token was written must not be published after it.
        self._reading = asyncio.Lock()
        self._follower: asyncio.Task[None] | None = None
        self._failures = Occurrences()
        self._controller_watch = (
            None if until_gone is None else ControllerWatch(store, until_gone, self._changed.set)
        )
        self.fence = ControlFence()
        self.controller = Controller(broker_id, store, cache, clock, self._chance, send, until_gone)

    async def join(self, broker: BrokerInfo, found: FoundFolder | None = None) -> StartReport:
        """Opens the store, registers and stands for election. The cache then has its first image.

        `broker.broker_epoch` is ignored, because the store assigns it. Raises ConfigError if the
        log folders belong to a different cluster than the store, or another broker has this id.
        """
        found = found or FoundFolder()
        self._store.watch_session(self._session_changed)
        await self._store.open()
        adopted = await self._found_cluster(found)
        self._me = replace(broker, supported_features=SUPPORTED_FEATURES)
        await self._register_at_start()
        if not await self._stand_at_start():
            await self._cache.publish(await self._stored_without_leaders())
        for path in (paths.CONTROLLER, paths.CONFIG, paths.FEATURE, *NOTICED):
            self._store.watch(path, lambda _: self._changed.set())
        self._cache.subscribe(self._image_changed)
        # The controller may have disappeared before anyone watched it.
        self._changed.set()
        name = "cluster-follower"
        self._follower = asyncio.create_task(repeat(name, self._follow_store), name=name)
        return StartReport(
            adopted, stray_partitions(self._cache.image, found), self._cache.config.ignored_dynamic
        )

    async def leave(self) -> None:
        """Finishes the controller's current work and ends the session."""
        if self._follower is not None:
            self._follower.cancel()
            await asyncio.gather(self._follower, return_exceptions=True)
        if self._controller_watch is not None:
            await self._controller_watch.close()
        await self.controller.resign()
        await self._store.close()

    @property
    def unbroken_since(self) -> int:
        """The broker epoch since which none of this broker's writes can be missing."""
        return self._me.unbroken_since if self._me is not None else -1

    async def is_registered(self) -> bool:
        """Whether the store knows this broker under its current epoch."""
        await self._store.synchronize()
        node = await self._store.get(paths.broker_path(self._broker_id))
        is_same = node is not None and node.created_zxid == self.fence.broker_epoch
        return is_same and not self._is_session_lost

    async def settings_of(self, topics: Collection[str]) -> TopicSettings:
        """The stored settings of new topics. Those that the store does not return in time are read
        later."""
        try:
            async with asyncio.timeout(SETTINGS_WITHIN_S):
                # Our ZooKeeper server may not have yet what the controller has written.
                await self._store.synchronize()
                return await settings_of_topics(self._store, topics)
        except (StoreError, TimeoutError) as problem:
            logger.info("could not read the settings of new topics yet: %r", problem)
            return {}

    async def write_token(self, operation: Operation, change: ImageChange) -> None:
        """Stores a delegation token and publishes it here.

        Each broker writes tokens itself, as in Kafka: only the broker that was asked knows the
        requester.
        """
        notices = [] if self._store.watches_below else map(_token_notice, change.tokens)
        async with self._reading:
            await self._store.multi([operation, *notices])
            await self._take_tokens(change)

    # -- joining --------------------------------------------------------------------------------

    async def _stand_at_start(self) -> bool:
        """A broker that was elected but cannot take over is still a broker, and will stand
        again."""
        try:
            return await self.controller.stand()
        except ControllerUnavailable as problem:
            logger.warning("elected, but could not become the controller yet: %s", problem)
            return False

    async def _register_at_start(self) -> None:
        try:
            await self._register()
        except AlreadyRegistered as problem:
            raise ConfigError(
                str(problem),
                name="node.id",
                hint="Give each broker its own id: --broker-id, or node.id in the settings",
            ) from problem

    async def _register(self) -> None:
        assert self._me is not None
        registered = await self._registration.register(self._me)
        self.fence.broker_epoch = registered.broker_epoch
        if self._me.unbroken_since < 0:
            self._me = replace(self._me, unbroken_since=registered.broker_epoch)

    async def _found_cluster(self, found: FoundFolder) -> list[str]:
        """Returns the topics adopted from the log folders."""
        for tries_left in reversed(range(FOUNDING_TRIES)):
            identity = await load_identity(self._store)
            _check_same_cluster(identity, found)
            founding = found_cluster(
                identity,
                await self._persistent_paths(),
                self._broker_id,
                found,
                partial(paths.random_id, self._chance.getrandbits),
            )
            try:
                if founding.operations:
                    await self._store.multi(founding.operations)
                break
            except NodeExists:
                if not tries_left:
                    raise
        return founding.adopted_topics

    async def _persistent_paths(self) -> set[str]:
        """The paths of the required nodes and their siblings."""
        existing = {f"/{name}" for name in await self._store.children("/")}
        parents = {path.rpartition("/")[0] for path in paths.PERSISTENT_PATHS}
        for parent in sorted(parents):
            if parent in existing:
                existing |= {f"{parent}/{name}" for name in await self._store.children(parent)}
        return existing

    # -- staying joined ----------------------------------------------------------------------------

    async def _follow_store(self) -> None:
        await self._changed.wait()
        self._changed.clear()
        try:
            if self._is_session_lost:
                await self._rejoin()
            await self._look()
        except (StoreError, ControllerUnavailable, AlreadyRegistered) as problem:
            times = self._failures.worth_telling(str(problem))
            if times:
                logger.warning("metadata store problem%s: %s", repeated(times), problem)
            await asyncio.sleep(RETRY_S)
            self._changed.set()
        except BaseException:
            self._changed.set()
            raise

    async def _look(self) -> None:
        if self.controller.is_active:
            await self._pass_on_proof()
            await self._look_as_controller()
            return
        elected = await self._store.get(paths.CONTROLLER)
        with decoding():
            leader = None if elected is None else paths.decode_controller(elected.data)
        if elected is not None and leader == self._broker_id:
            # We were elected without learning of it, or the node is left over from our last
            # session.
            await self._store.multi([Delete(paths.CONTROLLER, elected.version)])
            elected = None
        if elected is None and await self.controller.stand():
            await self._pass_on_proof()
            return
        if leader is not None and self._controller_watch is not None:
            listener = self._cache.config.inter_broker_listener_name
            await self._controller_watch.follow(leader, listener)
        if elected is not None and elected.created_zxid != self._reign:
            await self._forget_deleted(self._topic_ids())
            self._reign = elected.created_zxid
        await self._read_settings()

    async def _look_as_controller(self) -> None:
        """The controller wrote all it knows itself, except for tokens, settings and ACLs.

        Any broker writes tokens. Kafka's brokers write settings and ACLs into ZooKeeper when asked
        to change them.
        """
        async with self._reading:
            stored_tokens, known_tokens = await load_tokens(self._store), self._cache.image.tokens
            if stored_tokens != known_tokens:
                await self._take_tokens(
                    ImageChange(tokens={**dict.fromkeys(known_tokens), **stored_tokens})
                )
        if self._store.watches_below:
            return
        stored = await load_settings(self._store)
        known = self._cache.image
        is_new = stored.configs != known.configs or stored.acls != known.acls
        if is_new and self.controller.is_active:
            await self.controller.refresh()

    def _image_changed(self, _: MetadataImage, delta: Delta) -> None:
        """The controller announces new topics, but not their settings. Has those read that
        `settings_of` could not read."""
        if delta.created_topics and not self.controller.is_active:
            self._new_topics.update(topic.name for topic in delta.created_topics)
            self._changed.set()

    async def _pass_on_proof(self) -> None:
        """As the new controller, we may know that the previous one is dead."""
        watch = self._controller_watch
        if watch is not None and watch.dead is not None:
            dead, watch.dead = watch.dead, None
            await self.controller.broker_died(dead)

    async def _stored_without_leaders(self) -> MetadataImage:
        """The stored image without leaders, for use until the controller has announced them.

        This broker must not lead what it led before the restart.
        """
        return _without_leader(await load_image(self._store))

    async def _read_settings(self) -> None:
        """Settings, features and the controller come from the store, everything else from the
        controller."""
        async with self._reading:
            new_topics, before = set(self._new_topics), self._cache.image
            if new_topics:
                await self._store.synchronize()
            stored = await self._settings.read(before, new_topics)
            self._new_topics -= new_topics
            known = self._cache.image
            await self._cache.publish(
                replace(
                    stored,
                    configs=_with_later(stored.configs, before.configs, known.configs),
                    brokers=known.brokers,
                    topics=known.topics,
                    topics_by_id=known.topics_by_id,
                )
            )

    async def _take_tokens(self, change: ImageChange) -> None:
        if not self.controller.is_active:
            await self._cache.publish(self._cache.image.apply(change), change)
            return
        try:
            await self.controller.adopt(change)
        except ControllerUnavailable:
            # It has just been deposed: as a follower it reads everything.
            self._changed.set()

    def _session_changed(self, event: SessionEvent) -> None:
        if event is SessionEvent.LOST:
            logger.error("lost the session with the metadata store; registering again")
            self.controller.deposed()
            self._registration.session_lost()
            self._is_session_lost = True
            self._changed.set()

    async def _rejoin(self) -> None:
        """Leads nothing until the controller has noticed us again: others lead meanwhile."""
        await self._cache.publish(_without_leader(self._cache.image, self._broker_id))
        await self._store.open()
        self._settings.forget()
        self._is_session_lost = False
        try:
            await self._register()
        except (StoreError, AlreadyRegistered):
            # Nothing else would make us try again.
            self._is_session_lost = True
            raise
        # Topics may have been deleted meanwhile: the next look finds out, and retries.
        self._reign = -1

    def _topic_ids(self) -> dict[str, UUID]:
        return {name: topic.topic_id for name, topic in self._cache.image.topics.items()}

    async def _forget_deleted(self, known: Mapping[str, UUID]) -> None:
        """Applies deletions that we missed, while not registered or because the controller died
        before it told us.

        A controller announces existing topics and future deletions, but not past ones. `known` was
        known before: a topic that is announced while we read is not missing.
        """
        await self._store.synchronize()
        stored = set(await self._store.children(paths.TOPICS))
        now = self._topic_ids()
        missing = known.keys() - stored
        gone = sorted(name for name in missing if now.get(name) == known[name])
        if gone:
            logger.info("forgetting topics that were deleted meanwhile: %s", ", ".join(gone))
            change = ImageChange(topics=dict.fromkeys(gone))
            await self._cache.publish(self._cache.image.apply(change))


def _with_later(stored: Settings, before: Settings, now: Settings) -> Settings:
    """The settings as read, except those of topics that changed meanwhile: these are newer."""
    later = {
        resource: now.get(resource)
        for resource in {*before, *now}
        if now.get(resource) is not before.get(resource)
    }
    merged = {**stored, **later}
    return {resource: settings for resource, settings in merged.items() if settings is not None}


def _token_notice(token_id: str) -> Operation:
    return token_nodes.change_notification(token_id)


def _without_leader(image: MetadataImage, leader: int | None = None) -> MetadataImage:
    """Removes `leader` as the leader of its partitions, or removes all leaders."""
    topics = {
        name: topic.with_partitions(
            {
                index: partition._replace(leader=NO_LEADER)
                for index, partition in enumerate(topic.partitions)
                if leader in (None, partition.leader)
            }
        )
        for name, topic in image.topics.items()
    }
    topics_by_id = {topic.topic_id: topic for topic in topics.values()}
    return replace(image, topics=topics, topics_by_id=topics_by_id)


def _check_same_cluster(identity: Identity, found: FoundFolder) -> None:
    """Store and log folders must belong to the same cluster, as far as the folders know."""
    if None not in (identity.cluster_id, found.cluster_id) and (
        identity.cluster_id != found.cluster_id
    ):
        raise ConfigError(
            f"the log folders belong to cluster {found.cluster_id}, but the metadata file to "
            f"cluster {identity.cluster_id}",
            name="log.dirs",
            hint="Set log.dirs to folders of one cluster",
        )
