"""The composition root: makes the parts of a broker and lists them in the order of their start.

`Broker._parts` is that list; `lifecycle.py` starts the parts and stops them in the opposite order.
"""

from __future__ import annotations

import asyncio
import logging
import random
import sqlite3
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from floodmark.apis.context import Services
from floodmark.apis.dispatch import Dispatch, advertised_versions
from floodmark.apis.prepared.memory import Generation
from floodmark.broker.access_control import make_authorizer
from floodmark.broker.advertised import reachable_host
from floodmark.broker.cluster_membership import ClusterMembership
from floodmark.broker.control_requests import ControlRequests
from floodmark.broker.controller_client import ControllerClient
from floodmark.broker.coordinators import Coordination
from floodmark.broker.delayed_work import Deferred
from floodmark.broker.folder_moves import FolderMoves
from floodmark.broker.hand_over import HandOver
from floodmark.broker.identity import Identity, establish_identity, look_at_folders
from floodmark.broker.lifecycle import Lifecycle, Part
from floodmark.broker.link_security import inter_broker_security
from floodmark.broker.links import BrokerLinks
from floodmark.broker.log_loading import load_logs
from floodmark.broker.maintenance import Maintenance
from floodmark.broker.new_folders import check_metadata_folder, find_metadata_file
from floodmark.broker.partitions import Partitions
from floodmark.broker.preload import preload
from floodmark.broker.process_watch import until_gone
from floodmark.broker.quotas import listener_rates, make_quotas, windows
from floodmark.broker.sasl_listeners import SaslListeners
from floodmark.broker.session_doubt import SessionDoubt
from floodmark.broker.start_report import tell_of_start
from floodmark.broker.tls_listeners import TlsListeners
from floodmark.broker.zookeeper_member import (
    founded_id,
    no_zookeeper,
    with_generated_id,
    zookeeper_store,
)
from floodmark.clock import Clock, SystemClock
from floodmark.config.broker_config import BrokerConfig
from floodmark.config.checks import connection_limits
from floodmark.controller.controller import Controller
from floodmark.metadata.cache import MetadataCache
from floodmark.metadata.cluster_folder import CLUSTER_FILE_NAME, founded_cluster_id
from floodmark.metadata.departed import DepartedBrokers
from floodmark.metadata.embedded import EmbeddedStore, stored_cluster_id
from floodmark.metadata.image import BrokerInfo, Delta, Endpoint, MetadataImage
from floodmark.metadata.store import Store, StoreUnavailable
from floodmark.network.acceptor import Listener
from floodmark.network.creation_rates import CreationRates
from floodmark.network.processor import StrangerLimits
from floodmark.network.server import NetworkServer, NetworkSettings
from floodmark.replication.background import LoopBackground
from floodmark.replication.fetch_sessions import FetchSessions
from floodmark.replication.replica import Replica
from floodmark.replication.replica_manager import ReplicaManager
from floodmark.storage.errors import LogDirFailure, StorageError
from floodmark.storage.files import Files, RealFiles
from floodmark.storage.log_dir import FoundPartition
from floodmark.storage.log_manager import LogManager

if TYPE_CHECKING:
    from floodmark.replication.fetchers import Fetchers
    from floodmark.replication.isr_review import IsrReview
    from floodmark.storage.compaction.cleaner import CleanerSettings, LogCleaner

logger = logging.getLogger(__name__)

DISK_THREADS = 4
"""For what blocks: syncs, checkpoints, removal of files. One log's sync must not wait for all."""

TOLD_WITHIN_S = 10
"""So long a start waits for the controller of the cluster; an election may be under way."""

FETCH_SESSION_EVICTION_MS = 120_000
"""Kafka's `min.incremental.fetch.session.eviction.ms`."""


class Broker:
    """`start` and `stop` once each; the parts are public for observability and tests."""

    def __init__(
        self,
        config: BrokerConfig,
        *,
        clock: Clock | None = None,
        files: Files | None = None,
        no_folder_left: Callable[[], None] = lambda: None,
    ) -> None:
        """`no_folder_left` is called when the last log folder has failed: there is nothing to serve
        until somebody has looked at the disks."""
        self.clock: Clock = clock or SystemClock()
        self._no_folder_left = no_folder_left
        self.is_serving = False
        self._files = files or RealFiles()
        self._executor = ThreadPoolExecutor(DISK_THREADS, "floodmark-disk")
        self._deferred = Deferred(self._executor)
        self._start_config = config
        self._log_dirs = [Path(path) for path in config.log_dirs]
        self._cluster_dir = config.get_str("floodmark.cluster.dir")
        self._zookeeper = config.get_optional_str("zookeeper.connect")
        self._in_cluster = bool(self._cluster_dir or self._zookeeper)
        self._metadata_file = (
            Path(self._cluster_dir) / CLUSTER_FILE_NAME
            if self._cluster_dir
            else find_metadata_file(self._files, self._log_dirs)
        )
        self._lifecycle = Lifecycle()
        self._is_marked_clean = False
        self._found: list[FoundPartition] = []
        self._logs_loaded = False
        self._cleaner: LogCleaner | None = None
        self._replication: list[Fetchers | IsrReview | SessionDoubt] = []
        self.logs = LogManager(
            self._files,
            self._log_dirs,
            producer_expiration_ms=config.get_int("producer.id.expiration.ms"),
            recovery_threads=config.get_int("num.recovery.threads.per.data.dir"),
        )
        self.replicas = ReplicaManager(
            self.clock, LoopBackground(self._executor), self._disk_failed
        )

    # The parts that need an identity; made by `start`.
    broker_id: int
    _identity: Identity
    _store: Store
    _founded_id: str | None
    metadata: MetadataCache
    tls: TlsListeners
    sasl: SaslListeners
    membership: ClusterMembership
    coordination: Coordination
    services: Services
    dispatch: Dispatch
    network: NetworkServer
    control: ControlRequests
    partitions: Partitions
    _maintenance: Maintenance
    _afterwards: asyncio.Task[None]

    @property
    def config(self) -> BrokerConfig:
        return self.metadata.config

    @property
    def controller(self) -> Controller:
        return self.membership.controller

    @property
    def fetch_sessions(self) -> FetchSessions:
        return self.services.fetch_sessions

    @property
    def address(self) -> str:
        """Host and port of the first listener, as bound."""
        listener = self.config.listeners[0]
        return f"{listener.host or '127.0.0.1'}:{self.network.port(listener.name)}"

    async def start(self) -> None:
        try:
            await self._lifecycle.start(self._parts())
        except StoreUnavailable as error:
            if self._zookeeper:
                raise no_zookeeper(error) from error
            raise StorageError(
                f"the metadata in {self._metadata_file} cannot be used: {error}. "
                + _what_next(error)
            ) from error
        self.is_serving = True
        if not self.controller.is_active:
            await self._until_told()
        logger.info("broker %d of cluster %s serves", self.broker_id, self._identity.cluster_id)

    async def stop(self) -> bool:
        """Whether everything stopped in order and the next start needs no recovery."""
        if not self.is_serving:
            return False
        self.is_serving = False
        await self._lifecycle.stop()
        return self._is_marked_clean

    def _parts(self) -> Iterator[Part]:
        """In the order of their start.

        The way back: leaderships are handed over, nothing new comes in, everybody who waits gets an
        answer, the logs are synced and marked as clean, and only then does the broker leave the
        cluster.
        """
        yield Part(stop=self._executor.shutdown)
        yield Part(self.logs.open_dirs, self._release_folders)
        self._store = self._make_store()
        yield Part(stop=self._store.close)
        yield Part(self._identify)
        self._make_parts()
        yield Part(stop=self.links.close)
        yield Part(stop=self.membership.leave)
        # Other brokers are told the ports, so they are bound before the broker joins the cluster.
        yield Part(self._bind, self._close_network)
        yield Part(self._join)
        yield Part(stop=self._close_logs)
        yield Part(stop=self._deferred.close)
        yield Part(stop=self.partitions.close)
        yield Part(stop=self._folder_moves.close)
        yield Part(self._begin_afterwards, self._end_afterwards)
        yield Part(self._maintenance.start, self._maintenance.close)
        yield Part(stop=self._close_network)
        yield Part(stop=self.replicas.close)
        for part in self._replication:
            yield Part(part.start, part.close)
        yield Part(stop=self.coordination.close)
        yield Part(self.tls.start, self.tls.close)
        yield Part(self.sasl.start, self.sasl.close)
        yield Part(self._accept, self.network.stop_accepting)
        if self._in_cluster:
            hand_over = HandOver(self.broker_id, self.metadata, self.controller_client, self.clock)
            yield Part(stop=hand_over.run)

    async def _identify(self) -> None:
        if not self._in_cluster:
            check_metadata_folder(self._files, self._metadata_file, self.logs)
        if self._zookeeper:
            await self._ask_zookeeper()
        self._identity = establish_identity(self._start_config, self.logs, self._stored_cluster_id)
        self._found = self.logs.found_partitions()

    async def _ask_zookeeper(self) -> None:
        """Who we are stands there, as far as the settings and the log folders do not say it."""
        await self._store.open()
        self._start_config = await with_generated_id(self._start_config, self.logs, self._store)
        self._founded_id = await founded_id(self.logs, self._store)

    def _release_folders(self) -> None:
        """Gives the locks back after a start that came to nothing; an orderly stop has closed the
        logs before."""
        self.logs.close(self.clock.now_ms(), clean=False)

    async def _join(self) -> None:
        config = self.config
        report = await self.membership.join(
            BrokerInfo(
                self.broker_id,
                -1,
                self._endpoints(config),
                config.get_optional_str("broker.rack"),
                unbroken_since=self.logs.unbroken_since,
            ),
            look_at_folders(self._files, self._found, self._identity, config),
        )
        tell_of_start(report, self.metadata, self._found, self.address)

    async def _close_network(self) -> None:
        await self.network.close()

    def _accept(self) -> None:
        self.network.set_processors(self.config.get_int("num.network.threads"))
        self._configure_network()
        self.network.start()

    def _begin_afterwards(self) -> None:
        self._afterwards = asyncio.create_task(self._finish_start())

    async def _end_afterwards(self) -> None:
        await self._afterwards
        if self._cleaner is not None:
            await self._cleaner.close()

    async def _until_told(self) -> None:
        """Until the controller has noticed this broker: before that, clients would find a cluster
        without leaders here, and too few brokers for their replicas elsewhere."""
        try:
            async with asyncio.timeout(TOLD_WITHIN_S):
                await self.control.was_told.wait()
        except TimeoutError:
            logger.warning("the controller has told nothing within %d s", TOLD_WITHIN_S)

    def _stored_cluster_id(self) -> str | None:
        if self._zookeeper:
            return self._founded_id
        if self._cluster_dir:
            return founded_cluster_id(self._metadata_file)
        if not self._files.exists(self._metadata_file):
            return None
        return stored_cluster_id(self._files.database(self._metadata_file))

    async def _finish_start(self) -> None:
        """What can wait until the first clients are served: code that is not in use yet is
        imported off the loop, so that its first user need not wait, and the cleaner starts."""
        await asyncio.to_thread(preload)
        self._folder_moves.resume()
        if self.config.get_bool("log.cleaner.enable") and self.is_serving:
            from floodmark.storage.compaction.cleaner import LogCleaner

            self._cleaner = LogCleaner(
                self._files,
                lambda: [
                    (r.log, r.core.high_watermark)
                    for r in self.replicas.replicas
                    if not r.log.is_truncating
                ],
                self.clock,
                self._executor,
                self._deferred.run_later,
                cleaner_settings(self.config),
            )
            self._cleaner.start()

    def _make_parts(self) -> None:
        self.broker_id = self._identity.node_id
        config = self._start_config.with_static({"node.id": str(self.broker_id)})
        self.metadata = MetadataCache(config)
        self.tls = TlsListeners(config, self.clock)
        self.sasl = SaslListeners(self.metadata, self.clock)
        if self._in_cluster:
            # Before anything starts: nobody looks for this in the log of a running broker.
            inter_broker_security(config)
        self.links = BrokerLinks(self.metadata, f"broker-{self.broker_id}")
        self.membership = ClusterMembership(
            self.broker_id,
            self._store,
            self.metadata,
            self.clock,
            partial(self.links.request, purpose="control"),
            until_gone=until_gone if self._in_cluster else None,
        )
        self.controller_client = ControllerClient(
            self.broker_id, self.metadata, self.controller, self.links, self.membership.fence
        )
        self.partitions = Partitions(
            self.broker_id,
            config,
            self.logs,
            self.replicas,
            self.clock,
            self._executor,
            self._deferred,
            self._no_folder_left,
        )
        self.control = ControlRequests(
            self.broker_id,
            self.metadata,
            self.controller,
            self.membership.fence,
            self.replicas,
        )
        self.coordination = Coordination(
            self.broker_id,
            self.metadata,
            self.controller_client,
            self.links,
            self.replicas,
            self.clock,
        )
        self._folder_moves = FolderMoves(
            self.logs, self.replicas, self.clock, self._executor, self._deferred
        )
        self._creation_rates = CreationRates(self.clock, windows(config, "quota"))
        generation = Generation()
        self.services = Services(
            broker_id=self.broker_id,
            clock=self.clock,
            replicas=self.replicas,
            logs=self.logs,
            metadata=self.metadata,
            controller=self.controller,
            controller_client=self.controller_client,
            control=self.control,
            coordinators=self.coordination,
            fetch_sessions=FetchSessions(
                config.get_int("max.incremental.fetch.session.cache.slots"),
                FETCH_SESSION_EVICTION_MS,
                lambda: random.randint(1, 2**31 - 1),
                config.get_int("floodmark.request.max.entries"),
            ),
            folder_moves=self._folder_moves,
            api_versions=advertised_versions(in_cluster=self._in_cluster),
            authenticator=self.sasl.authenticator,
            generation=generation,
            authorizer=make_authorizer(self.metadata, generation.end),
            quotas=make_quotas(self.metadata, self.clock, self._creation_rates, generation.end),
        )
        if self._in_cluster:
            remembered_ms = config.get_int("zookeeper.session.timeout.ms")
            self.services.departed = DepartedBrokers(self.clock, remembered_ms)
            self.metadata.subscribe(self.services.departed.image_changed)
        self.dispatch = Dispatch(self.services)
        self._maintenance = Maintenance(
            config,
            self.logs,
            self.replicas,
            self.partitions,
            self.metadata,
            self.coordination,
            self.clock,
            self._executor,
            self._deferred,
        )
        self.metadata.subscribe(self._image_changed)
        self.replicas.on_late_decision = self.coordination.partitions_changed
        self.replicas.quotas.configure(config.get_int)
        if self._in_cluster:
            self._make_replication(config)

    def _make_replication(self, config: BrokerConfig) -> None:
        from floodmark.replication.closest_replica import RACK_AWARE
        from floodmark.replication.fetchers import Fetchers, fetcher_settings
        from floodmark.replication.isr_review import IsrReview

        if config.get_optional_str("replica.selector.class") == RACK_AWARE:
            self.replicas.rack_of = self._rack_of
        fence = self.membership.fence
        self.replicas.in_doubt = doubt = SessionDoubt(
            config.get_int("zookeeper.session.timeout.ms"),
            self.clock,
            self.membership.is_registered,
        )
        self._replication = [
            doubt,
            Fetchers(
                self.broker_id,
                self.replicas,
                self.logs,
                self.links.request,
                lambda: fence.broker_epoch,
                self.clock,
                self._executor,
                fetcher_settings(config),
            ),
            IsrReview(
                self.broker_id,
                self.replicas,
                self.controller_client.alter_partition,
                lambda: fence.broker_epoch,
                self.clock,
                config.get_int("replica.lag.time.max.ms"),
            ),
        ]

    def _rack_of(self, broker_id: int) -> str | None:
        """Of a live broker; None for any other."""
        image = self.metadata.image
        return image.brokers[broker_id].rack if image.is_live(broker_id) else None

    def _make_store(self) -> Store:
        config = self._start_config
        if self._zookeeper:
            return zookeeper_store(config, self._log_dirs[0])
        if not self._cluster_dir:
            return EmbeddedStore(self._files.database(self._metadata_file))
        from floodmark.metadata.shared import SharedStore

        timeout_ms = config.get_int("zookeeper.session.timeout.ms")
        return SharedStore(self._metadata_file, self.clock, timeout_ms)

    def _bind(self) -> None:
        config = self.config
        self.network = NetworkServer(
            [
                Listener(x.name, x.security_protocol, x.host, x.port, self.tls.of(x.name))
                for x in config.listeners
            ],
            self.dispatch.handle,
            NetworkSettings(
                queued_max_requests=config.get_int("queued.max.requests"),
                max_frame_bytes=config.get_int("socket.request.max.bytes"),
                max_idle_ms=config.get_int("connections.max.idle.ms"),
                backlog=config.get_int("socket.listen.backlog.size"),
                strangers=StrangerLimits(
                    config.get_int("sasl.server.max.receive.size"),
                    config.get_int("floodmark.authentication.timeout.ms"),
                ),
            ),
            self.clock,
        )

    def _endpoints(self, config: BrokerConfig) -> dict[str, Endpoint]:
        """What clients are told: the advertised address, with the port that was bound for a 0."""
        return {
            told.name: Endpoint(
                told.name,
                reachable_host(told.host),
                told.port or self.network.port(told.name),
                told.security_protocol,
            )
            for told in config.advertised_listeners
        }

    async def _image_changed(self, image: MetadataImage, delta: Delta) -> None:
        """The controller calls this before it answers whoever caused the change."""
        at_start = not self._logs_loaded
        if any(resource.kind == "broker" for resource in delta.changed_configs):
            # First: what was stored for this broker counts for the logs that are opened now.
            self._broker_config_changed(image)
        if at_start:
            self._logs_loaded = True
            await load_logs(
                self.logs,
                self._found,
                self._identity,
                image,
                lambda topic: self.partitions.log_config(image, topic),
                self.clock,
            )
        await self.partitions.apply(image, delta, at_start=at_start)
        self.coordination.image_changed(image, delta)

    def _broker_config_changed(self, image: MetadataImage) -> None:
        """Dynamic settings of the broker: defaults of its topics, its slots, its limits. Called
        with what is stored at the start, and with every change."""
        config = self.metadata.config
        self.logs.expire_producers_after(config.get_int("producer.id.expiration.ms"))
        self.logs.recovery_threads = config.get_int("num.recovery.threads.per.data.dir")
        self.partitions.config = config
        self.replicas.quotas.configure(config.get_int)
        for topic in image.topics.values():
            self.partitions.reconfigure(image, topic)
        self.tls.reconfigure(config)
        if self.is_serving:
            self._configure_network()
        self.coordination.config_changed(config)
        if self._cleaner is not None:
            self._cleaner.settings = cleaner_settings(config)

    def _configure_network(self) -> None:
        config = self.config
        self.network.channel.resize(config.get_int("num.io.threads"))
        self.network.limit_connections(
            config.get_int("max.connections"),
            config.get_int("max.connections.per.ip"),
            connection_limits(config.get_str("max.connections.per.ip.overrides")),
            {x.name: config.max_connections_of(x.name) for x in config.listeners},
        )
        self.network.limits.rates = self._creation_rates
        self._creation_rates.limits_of_listeners = listener_rates(config)

    def _disk_failed(self, replica: Replica, problem: StorageError | OSError) -> None:
        if isinstance(problem, OSError):
            problem = LogDirFailure(replica.log.directory.parent, str(problem))
        if isinstance(problem, LogDirFailure):
            self.partitions.fail_folder_of(problem)
        elif replica.is_here:
            # A sync may tell of it late, when its topic has been deleted and made again.
            self.partitions.fail_one(replica.key)

    async def _close_logs(self) -> None:
        self._is_marked_clean = await asyncio.to_thread(
            self._sync_and_close, self._lifecycle.is_clean
        )

    def _sync_and_close(self, clean: bool) -> bool:
        try:
            self.logs.checkpoint_high_watermarks(
                {r.key: r.core.high_watermark for r in self.replicas.replicas}
            )
        except StorageError as problem:
            logger.error("%s", problem)
        return self.logs.close(
            self.clock.now_ms(), clean=clean, broker_epoch=self.membership.unbroken_since
        )


def cleaner_settings(config: BrokerConfig) -> CleanerSettings:
    from floodmark.storage.compaction.cleaner import CleanerSettings

    return CleanerSettings(
        backoff_ms=config.get_int("log.cleaner.backoff.ms"),
        dedupe_buffer_bytes=config.get_int("log.cleaner.dedupe.buffer.size"),
        io_bytes_per_second=config.get_float("log.cleaner.io.max.bytes.per.second"),
    )


def _what_next(error: StoreUnavailable) -> str:
    if isinstance(error.__cause__, sqlite3.OperationalError):
        # What SQLite says when the file is not to blame.
        return (
            "Make room if the disk is full, and see that the broker may write there; the file "
            "need not be broken"
        )
    return (
        "Put back a copy of the file; without the file, topics are taken over from the log "
        "folders, but not their settings"
    )
