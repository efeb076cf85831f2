"""Where a cluster's metadata is stored, and what a broker learns there before it starts.

broker.py calls `metadata_home` once. A single broker has a file in a log folder. The brokers of one
machine share a folder (`floodmark.cluster.dir`), those of several machines use ZooKeeper
(`zookeeper.connect`). The code of the last two is imported only where it is used.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from floodmark.broker.new_folders import check_metadata_folder, find_metadata_file
from floodmark.broker.zookeeper_member import (
    founded_id,
    no_zookeeper,
    with_generated_id,
    zookeeper_store,
)
from floodmark.clock import Clock
from floodmark.config.broker_config import BrokerConfig
from floodmark.metadata.cluster_folder import CLUSTER_FILE_NAME, founded_cluster_id
from floodmark.metadata.embedded import EmbeddedStore, stored_cluster_id
from floodmark.metadata.store import Store, StoreUnavailable
from floodmark.storage.errors import StorageError
from floodmark.storage.files import Files
from floodmark.storage.log_manager import LogManager


class MetadataHome(Protocol):
    @property
    def is_shared(self) -> bool:
        """Whether other brokers may use it too."""

    def make_store(self) -> Store: ...

    async def prepare(self, config: BrokerConfig, logs: LogManager, store: Store) -> BrokerConfig:
        """Called with the open log folders, before the broker knows its identity.

        Returns the settings, with a node id from the cluster if the broker had none.
        """

    def cluster_id(self) -> str | None:
        """The cluster id, if known. Call it after `prepare`."""

    def unusable(self, error: StoreUnavailable) -> Exception:
        """The error for the user when the store does not work."""


def metadata_home(
    config: BrokerConfig, files: Files, log_dirs: Sequence[Path], clock: Clock
) -> MetadataHome:
    if config.get_optional_str("zookeeper.connect"):
        return ZooKeeperHome(config, log_dirs[0])
    shared_folder = config.get_str("floodmark.cluster.dir")
    if shared_folder:
        timeout_ms = config.get_int("zookeeper.session.timeout.ms")
        return SharedFolderHome(Path(shared_folder) / CLUSTER_FILE_NAME, timeout_ms, clock)
    return OwnFileHome(files, log_dirs)


class OwnFileHome:
    is_shared = False

    def __init__(self, files: Files, log_dirs: Sequence[Path]) -> None:
        self._files = files
        self._file = find_metadata_file(files, log_dirs)

    def make_store(self) -> Store:
        return EmbeddedStore(self._files.database(self._file))

    async def prepare(self, config: BrokerConfig, logs: LogManager, store: Store) -> BrokerConfig:
        check_metadata_folder(self._files, self._file, logs)
        return config

    def cluster_id(self) -> str | None:
        if not self._files.exists(self._file):
            return None
        return stored_cluster_id(self._files.database(self._file))

    def unusable(self, error: StoreUnavailable) -> Exception:
        return _unusable_file(self._file, error)


class SharedFolderHome:
    is_shared = True

    def __init__(self, file: Path, session_timeout_ms: int, clock: Clock) -> None:
        self._file = file
        self._session_timeout_ms = session_timeout_ms
        self._clock = clock

    def make_store(self) -> Store:
        from floodmark.metadata.shared import SharedStore

        return SharedStore(self._file, self._clock, self._session_timeout_ms)

    async def prepare(self, config: BrokerConfig, logs: LogManager, store: Store) -> BrokerConfig:
        return config

    def cluster_id(self) -> str | None:
        return founded_cluster_id(self._file)

    def unusable(self, error: StoreUnavailable) -> Exception:
        return _unusable_file(self._file, error)


class ZooKeeperHome:
    is_shared = True

    def __init__(self, config: BrokerConfig, folder: Path) -> None:
        """`folder` keeps the session, so that the next start can end it."""
        self._config = config
        self._folder = folder
        self._cluster_id: str | None = None

    def make_store(self) -> Store:
        return zookeeper_store(self._config, self._folder)

    async def prepare(self, config: BrokerConfig, logs: LogManager, store: Store) -> BrokerConfig:
        await store.open()
        config = await with_generated_id(config, logs, store)
        self._cluster_id = await founded_id(logs, store)
        return config

    def cluster_id(self) -> str | None:
        return self._cluster_id

    def unusable(self, error: StoreUnavailable) -> Exception:
        return no_zookeeper(error)


def _unusable_file(file: Path, error: StoreUnavailable) -> StorageError:
    return StorageError(f"the metadata in {file} cannot be used: {error}. {_what_next(error)}")


def _what_next(error: StoreUnavailable) -> str:
    if isinstance(error.__cause__, sqlite3.OperationalError):
        # SQLite's errors when the file is not to blame.
        return (
            "Free some space if the disk is full, and check that the broker may write there; the "
            "file itself may be intact"
        )
    return (
        "Restore a copy of the file. Without the file, the broker adopts the topics in the log "
        "folders, but not their settings"
    )
