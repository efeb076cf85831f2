"""The replication parts that only a broker in a cluster runs. For broker.py.

These are the fetchers that follow leaders, the review of in-sync replicas, the session check after
a pause, and the notices about failed log folders.
"""

from __future__ import annotations

from concurrent.futures import Executor

from floodmark.broker.cluster_membership import ClusterMembership
from floodmark.broker.controller_client import ControllerClient
from floodmark.broker.failed_folders import FailedFolders
from floodmark.broker.lifecycle import Part
from floodmark.broker.links import BrokerLinks
from floodmark.broker.session_doubt import SessionDoubt
from floodmark.clock import Clock
from floodmark.metadata.cache import MetadataCache
from floodmark.metadata.store import Store
from floodmark.replication.closest_replica import RACK_AWARE
from floodmark.replication.fetchers import Fetchers, fetcher_settings
from floodmark.replication.isr_review import IsrReview
from floodmark.replication.replica_manager import ReplicaManager
from floodmark.storage.log_manager import LogManager


def replication_parts(
    broker_id: int,
    metadata: MetadataCache,
    replicas: ReplicaManager,
    logs: LogManager,
    membership: ClusterMembership,
    store: Store,
    links: BrokerLinks,
    controller_client: ControllerClient,
    clock: Clock,
    executor: Executor,
) -> list[Part]:
    """In start order. They are hooked into the replica manager immediately."""
    config, fence = metadata.config, membership.fence

    def is_live(broker_id: int) -> bool:
        return metadata.image.is_live(broker_id)

    def rack_of(broker_id: int) -> str | None:
        image = metadata.image
        return image.brokers[broker_id].rack if image.is_live(broker_id) else None

    if config.get_optional_str("replica.selector.class") == RACK_AWARE:
        replicas.rack_of = rack_of
    replicas.in_doubt = doubt = SessionDoubt(
        config.get_int("zookeeper.session.timeout.ms"), clock, membership.is_registered
    )
    failed_folders = FailedFolders(broker_id, store)
    replicas.on_offline_changed = failed_folders.changed
    membership.controller.lost_here = lambda: replicas.offline
    fetchers = Fetchers(
        broker_id,
        replicas,
        logs,
        links.request,
        lambda: fence.broker_epoch,
        clock,
        executor,
        fetcher_settings(config),
    )
    review = IsrReview(
        broker_id,
        replicas,
        controller_client.alter_partition,
        lambda: fence.broker_epoch,
        clock,
        config.get_int("replica.lag.time.max.ms"),
        is_live,
    )
    return [
        Part(doubt.start, doubt.close),
        Part(failed_folders.start, failed_folders.close),
        Part(fetchers.start, fetchers.close),
        Part(review.start, review.close),
    ]
