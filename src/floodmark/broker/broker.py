"""The composition root: makes the parts of a broker and lists them in start order.

`Broker._parts` is that list; `lifecycle.py` starts the parts and stops them in reverse. Other files
make single parts from the settings (`metadata_homes.py`, `network_settings.py`,
`cluster_replication.py`, `cleaning.py`), and `dynamic_settings.py` changes them while the broker
runs.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from floodmark.apis.context import Services
from floodmark.apis.dispatch import Dispatch, advertised_versions
from floodmark.apis.prepared.memory import Generation
from floodmark.apis.quotas import Quotas
from floodmark.broker.access_control import make_authorizer
from floodmark.broker.advertised import advertised_endpoints
from floodmark.broker.cleaning import Cleaning
from floodmark.broker.cluster_membership import ClusterMembership
from floodmark.broker.control_requests import ControlRequests
from floodmark.broker.controller_client import ControllerClient
from floodmark.broker.coordinators import Coordination
from floodmark.broker.delayed_work import Deferred
from floodmark.broker.delegation_tokens import DelegationTokens
from floodmark.broker.dynamic_settings import DynamicSettings
from floodmark.broker.folder_moves import FolderMoves, moves_at_once
from floodmark.broker.hand_over import HandOver
from floodmark.broker.identity import Identity, establish_identity, look_at_folders
from floodmark.broker.lifecycle import Lifecycle, Part
from floodmark.broker.link_security import inter_broker_security
from floodmark.broker.links import BrokerLinks
from floodmark.broker.log_loading import load_logs
from floodmark.broker.maintenance import Maintenance
from floodmark.broker.metadata_homes import metadata_home
from floodmark.broker.network_settings import bind_network, configure_network
from floodmark.broker.partitions import Partitions
from floodmark.broker.preload import preload
from floodmark.broker.process_watch import until_gone
from floodmark.broker.quotas import make_quotas, windows
from floodmark.broker.sasl_listeners import SaslListeners
from floodmark.broker.start_report import tell_of_start
from floodmark.broker.tls_listeners import TlsListeners
from floodmark.broker.token_requests import TokenRequests
from floodmark.clock import Clock, SystemClock
from floodmark.config.broker_config import BrokerConfig
from floodmark.controller.controller import Controller
from floodmark.metadata.cache import MetadataCache
from floodmark.metadata.departed import DepartedBrokers
from floodmark.metadata.image import BrokerInfo, Delta, MetadataImage
from floodmark.metadata.store import Store, StoreUnavailable
from floodmark.network.creation_rates import CreationRates
from floodmark.network.server import NetworkServer
from floodmark.replication.background import LoopBackground
from floodmark.replication.fetch_sessions import FetchSessions
from floodmark.replication.replica import Replica
from floodmark.replication.replica_manager import ReplicaManager
from floodmark.storage.errors import StorageError
from floodmark.storage.files import Files, RealFiles
from floodmark.storage.log_dir import FoundPartition
from floodmark.storage.log_manager import LogManager

logger = logging.getLogger(__name__)

DISK_THREADS = 4
"""Threads for blocking work: syncs, checkpoints, file removal. A log's sync must not wait for all
others."""

FIRST_CONTACT_TIMEOUT_S = 10
"""How long a start waits for the cluster's controller; an election may be in progress."""

FETCH_SESSION_EVICTION_MS = 120_000
"""Kafka's `min.incremental.fetch.session.eviction.ms`."""


class Broker:
    """Call `start` and `stop` once each. The parts are public for observability and tests."""

    def __init__(
        self,
        config: BrokerConfig,
        *,
        clock: Clock | None = None,
        files: Files | None = None,
        no_folder_left: Callable[[], None] = lambda: None,
    ) -> None:
        """`no_folder_left` is called when the last log folder has failed: nothing can be served
        until somebody repairs the disks."""
        self.clock: Clock = clock or SystemClock()
        self._no_folder_left = no_folder_left
        self.is_serving = False
        self._files = files or RealFiles()
        self._executor = ThreadPoolExecutor(DISK_THREADS, "floodmark-disk")
        self._deferred = Deferred(self._executor)
        self._start_config = config
        log_dirs = [Path(path) for path in config.log_dirs]
        self._metadata_home = metadata_home(config, self._files, log_dirs, self.clock)
        self._in_cluster = self._metadata_home.is_shared
        self._lifecycle = Lifecycle()
        self._is_marked_clean = False
        self._found: list[FoundPartition] = []
        self._logs_loaded = False
        self._replication: list[Part] = []
        self.logs = LogManager(
            self._files,
            log_dirs,
            producer_expiration_ms=config.get_int("producer.id.expiration.ms"),
            recovery_threads=config.get_int("num.recovery.threads.per.data.dir"),
        )
        self.replicas = ReplicaManager(
            self.clock,
            LoopBackground(self._executor),
            self._disk_failed,
        )
        self.cleaning = Cleaning(
            self._files, self.replicas, self.clock, self._executor, self._deferred
        )

    # The parts that need an identity; made by `start`.
    broker_id: int
    _identity: Identity
    _store: Store
    metadata: MetadataCache
    tls: TlsListeners
    sasl: SaslListeners
    membership: ClusterMembership
    token_requests: TokenRequests
    coordination: Coordination
    services: Services
    dispatch: Dispatch
    network: NetworkServer
    control: ControlRequests
    partitions: Partitions
    _settings: DynamicSettings
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
    def quotas(self) -> Quotas:
        return self.services.quotas

    @property
    def address(self) -> str:
        """The host and port of the first listener, as bound."""
        listener = self.config.listeners[0]
        return f"{listener.host or '127.0.0.1'}:{self.network.port(listener.name)}"

    async def start(self) -> None:
        try:
            await self._lifecycle.start(self._parts())
        except StoreUnavailable as error:
            raise self._metadata_home.unusable(error) from error
        self.is_serving = True
        if not self.controller.is_active:
            await self._until_told()
        logger.info("broker %d of cluster %s serves", self.broker_id, self._identity.cluster_id)

    async def stop(self) -> bool:
        """Returns whether all parts stopped in order, so that the next start needs no recovery."""
        if not self.is_serving:
            return False
        self.is_serving = False
        await self._lifecycle.stop()
        return self._is_marked_clean

    def _parts(self) -> Iterator[Part]:
        """The parts, in start order.

        Stopping goes in reverse: leaderships are handed over, no new requests are accepted, waiting
        requests are answered, the logs are synced and marked clean, and only then does the broker
        leave the cluster.
        """
        yield Part(stop=self._executor.shutdown)
        yield Part(self.logs.open_dirs, self._release_folders)
        self._store = self._metadata_home.make_store()
        yield Part(stop=self._store.close)
        yield Part(self._identify)
        self._make_parts()
        yield Part(stop=self.links.close)
        yield Part(stop=self.membership.leave)
        # Ports are bound before the broker joins the cluster, because it announces them.
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
        yield from self._replication
        yield Part(stop=self.coordination.close)
        yield Part(self.tls.start, self.tls.close)
        yield Part(self.sasl.start, self.sasl.close)
        yield Part(self.token_requests.start, self.token_requests.close)
        yield Part(self._accept, self.network.stop_accepting)
        if self._in_cluster:
            hand_over = HandOver(self.broker_id, self.metadata, self.controller_client, self.clock)
            yield Part(stop=hand_over.run)

    async def _identify(self) -> None:
        self._start_config = await self._metadata_home.prepare(
            self._start_config, self.logs, self._store
        )
        self._identity = establish_identity(
            self._start_config, self.logs, self._metadata_home.cluster_id
        )
        self._found = self.logs.found_partitions()

    def _release_folders(self) -> None:
        """Releases the locks after a failed start. An orderly stop has closed the logs before."""
        self.logs.close(self.clock.now_ms(), clean=False)

    async def _join(self) -> None:
        config = self.config
        report = await self.membership.join(
            BrokerInfo(
                self.broker_id,
                -1,
                advertised_endpoints(config, self.network.port),
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
        configure_network(self.network, self.config, self._creation_rates)
        self.network.start()

    def _begin_afterwards(self) -> None:
        self._afterwards = asyncio.create_task(self._finish_start())

    async def _end_afterwards(self) -> None:
        await self._afterwards
        await self.cleaning.close()

    async def _until_told(self) -> None:
        """Waits until the controller has noticed this broker. Before that, clients would find no
        leaders here, and too few brokers for their replicas elsewhere."""
        try:
            async with asyncio.timeout(FIRST_CONTACT_TIMEOUT_S):
                await self.control.was_told.wait()
        except TimeoutError:
            logger.warning(
                "the controller has not contacted this broker within %d s", FIRST_CONTACT_TIMEOUT_S
            )

    async def _finish_start(self) -> None:
        """Does what can wait until the first clients are served: starts the cleaner, and imports
        code that is not in use yet off the loop, so that its first user need not wait."""
        await asyncio.to_thread(preload)
        self._folder_moves.resume()
        if self.config.get_bool("log.cleaner.enable") and self.is_serving:
            self.cleaning.start(self.config)

    def _make_parts(self) -> None:
        """Makes everything that needs an identity. A part comes after those passed to it."""
        self.broker_id = self._identity.node_id
        config = self._start_config.with_static({"node.id": str(self.broker_id)})
        self.metadata = MetadataCache(config)
        self.replicas.is_in_cluster = lambda key: self.metadata.image.partition(*key) is not None
        self.tls = TlsListeners(config, self.clock)
        delegation_tokens = DelegationTokens(self.metadata, self.clock)
        self.sasl = SaslListeners(self.metadata, self.clock, delegation_tokens)
        self._make_cluster_parts(config)
        self.token_requests = TokenRequests(
            delegation_tokens, self.metadata, self.membership, self.clock
        )
        self._make_partition_parts(config)
        self._make_services(config)
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
        self._settings = DynamicSettings(
            self.logs,
            self.replicas,
            self.partitions,
            self.tls,
            self.coordination,
            self.cleaning,
            self._reconfigure_network,
        )
        self.metadata.subscribe(self._image_changed)
        self.replicas.on_late_decision = self.coordination.partitions_changed
        self.replicas.quotas.configure(config.get_int)

    def _make_partition_parts(self, config: BrokerConfig) -> None:
        """Makes the parts that work on this broker's partitions."""
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
            self.membership.settings_of,
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
            self.logs,
            self.replicas,
            self.clock,
            self._executor,
            self._deferred,
            moves_at_once(config),
        )

    def _make_cluster_parts(self, config: BrokerConfig) -> None:
        """Makes the parts that know other brokers. A single broker has them too, and elects
        itself."""
        if self._in_cluster:
            # Checked before anything starts: nobody looks for this error in the log of a running
            # broker.
            inter_broker_security(lambda: config)
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
        if self._in_cluster:
            from floodmark.broker.cluster_replication import replication_parts

            self._replication = replication_parts(
                self.broker_id,
                self.metadata,
                self.replicas,
                self.logs,
                self.membership,
                self._store,
                self.links,
                self.controller_client,
                self.clock,
                self._executor,
            )

    def _make_services(self, config: BrokerConfig) -> None:
        """Makes what request handlers may use."""
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
            delegation_tokens=self.token_requests,
            key_check=self.tls if self.tls.listeners else None,
            generation=generation,
            authorizer=make_authorizer(self.metadata, generation.end),
            quotas=make_quotas(self.metadata, self.clock, self._creation_rates, generation.end),
        )
        if self._in_cluster:
            remembered_ms = config.get_int("zookeeper.session.timeout.ms")
            self.services.departed = DepartedBrokers(self.clock, remembered_ms)
            self.metadata.subscribe(self.services.departed.image_changed)

    def _bind(self) -> None:
        self.network = bind_network(self.config, self.tls, self.dispatch.handle, self.clock)

    def _reconfigure_network(self, config: BrokerConfig) -> None:
        # Until then, `_accept` does it.
        if self.is_serving:
            configure_network(self.network, config, self._creation_rates)

    async def _image_changed(self, image: MetadataImage, delta: Delta) -> None:
        """Called by the metadata cache. A controller answers its request when this has returned."""
        at_start = not self._logs_loaded
        if any(resource.kind == "broker" for resource in delta.changed_configs):
            # First, because the broker's stored settings apply to the logs opened next.
            self._settings.apply(self.config, image)
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

    def _disk_failed(self, replica: Replica, problem: StorageError | OSError) -> None:
        # A callback, because the replica manager is made first.
        self.partitions.disk_failed(replica, problem)

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
