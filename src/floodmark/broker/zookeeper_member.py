"""What a broker does in a ZooKeeper cluster before it knows its identity. Called by
metadata_homes.py.

The cluster id is in ZooKeeper, and a broker without a node id gets one from there.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

from floodmark.config.broker_config import BrokerConfig
from floodmark.config.errors import ConfigError
from floodmark.metadata import paths
from floodmark.metadata.loader import load_identity
from floodmark.metadata.store import Create, NodeExists, SetData, Store, StoreUnavailable
from floodmark.storage.log_manager import LogManager

logger = logging.getLogger(__name__)


def zookeeper_store(config: BrokerConfig, folder: Path) -> Store:
    """Imports kazoo late: a single broker needs nothing but Python."""
    if config.get_str("floodmark.cluster.dir"):
        raise ConfigError(
            "zookeeper.connect and floodmark.cluster.dir set two metadata stores for one cluster",
            name="zookeeper.connect",
            hint="Remove one: ZooKeeper is for several machines, the folder for one",
        )
    try:
        from floodmark.broker.zookeeper_security import zookeeper_security
        from floodmark.metadata.session_handle import SessionHandleFile
        from floodmark.metadata.zookeeper_store import ZooKeeperSettings, ZooKeeperStore
    except ModuleNotFoundError as missing:
        raise ConfigError(
            f"zookeeper.connect needs the package {missing.name}, which is not installed",
            name="zookeeper.connect",
            hint="pip install 'floodmark[cluster]'",
        ) from missing
    timeout_ms = config.get_int("zookeeper.session.timeout.ms")
    connection_timeout = "zookeeper.connection.timeout.ms"
    settings = ZooKeeperSettings(
        config.get_str("zookeeper.connect"),
        timeout_ms,
        timeout_ms
        if config.get(connection_timeout) is None
        else config.get_int(connection_timeout),
        config.get_int("zookeeper.max.in.flight.requests"),
        zookeeper_security(config),
    )
    return ZooKeeperStore(settings, SessionHandleFile(folder))


def no_zookeeper(error: StoreUnavailable) -> ConfigError:
    return ConfigError(
        f"could not read the cluster's metadata: {error.message}",
        name="zookeeper.connect",
        hint="Start ZooKeeper and check that its port and zookeeper.ssl.* match, or remove "
        "zookeeper.connect to run a single broker",
    )


async def founded_id(logs: LogManager, store: Store) -> str | None:
    """The cluster id. Creates it for a new cluster, so that brokers that start together agree.

    If the log folders have an id, they are adopted instead (`controller/founding.py`).
    """
    known = (await load_identity(store)).cluster_id
    if known is not None or any(log_dir.meta is not None for log_dir in logs.dirs.values()):
        return known
    new = paths.encode_cluster_id(paths.encode_id(uuid4()))
    with suppress(NodeExists):
        await _ensure(store, "/cluster")
        await store.multi([Create(paths.CLUSTER_ID, new)])
    return (await load_identity(store)).cluster_id


async def with_generated_id(config: BrokerConfig, logs: LogManager, store: Store) -> BrokerConfig:
    """As in Kafka, a broker without a node id gets one above reserved.broker.max.id.

    The version of a node counts them.
    """
    metas = [log_dir.meta for log_dir in logs.dirs.values() if log_dir.meta is not None]
    has_id = config.node_id_is_set or any((meta.node_id or -1) >= 0 for meta in metas)
    if has_id or not config.get_bool("broker.id.generation.enable"):
        return config
    await _ensure(store, "/brokers")
    await _ensure(store, paths.BROKER_SEQUENCE)
    (outcome,) = await store.multi([SetData(paths.BROKER_SEQUENCE, b"")])
    node_id = config.get_int("reserved.broker.max.id") + outcome.version
    logger.info("node.id is not set: using the generated id %d", node_id)
    return config.with_static({"node.id": str(node_id)})


async def _ensure(store: Store, path: str) -> None:
    with suppress(NodeExists):
        await store.multi([Create(path)])
