"""Applies the broker's dynamic settings to its parts: topic defaults, slots, limits.

broker.py calls it with the stored settings at the start, and with every change.
"""

from __future__ import annotations

from collections.abc import Callable

from floodmark.broker.cleaning import Cleaning
from floodmark.broker.coordinators import Coordination
from floodmark.broker.partitions import Partitions
from floodmark.broker.tls_listeners import TlsListeners
from floodmark.config.broker_config import BrokerConfig
from floodmark.metadata.image import MetadataImage
from floodmark.replication.replica_manager import ReplicaManager
from floodmark.storage.log_manager import LogManager


class DynamicSettings:
    def __init__(
        self,
        logs: LogManager,
        replicas: ReplicaManager,
        partitions: Partitions,
        tls: TlsListeners,
        coordination: Coordination,
        cleaning: Cleaning,
        configure_network: Callable[[BrokerConfig], None],
    ) -> None:
        self._logs = logs
        self._replicas = replicas
        self._partitions = partitions
        self._tls = tls
        self._coordination = coordination
        self._cleaning = cleaning
        self._configure_network = configure_network

    def apply(self, config: BrokerConfig, image: MetadataImage) -> None:
        self._logs.expire_producers_after(config.get_int("producer.id.expiration.ms"))
        self._logs.recovery_threads = config.get_int("num.recovery.threads.per.data.dir")
        self._partitions.config = config
        self._replicas.quotas.configure(config.get_int)
        for topic in image.topics.values():
            self._partitions.reconfigure(image, topic)
        self._tls.reconfigure(config)
        self._configure_network(config)
        self._coordination.config_changed(config)
        self._cleaning.configure(config)
