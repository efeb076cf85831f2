"""Logs the result of a start: what is open, found, missing or without effect.

Called by broker.py.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from floodmark.broker.cluster_membership import StartReport
from floodmark.config.broker_config import BrokerConfig
from floodmark.config.listeners import Listener
from floodmark.metadata.cache import MetadataCache
from floodmark.metadata.image import MetadataImage
from floodmark.storage.log_dir import FoundPartition
from floodmark.vocabulary import TopicPartition

logger = logging.getLogger(__name__)


def tell_of_start(
    report: StartReport,
    metadata: MetadataCache,
    found: Iterable[FoundPartition],
    address: str,
) -> None:
    """`found` holds the partition folders, `address` is this broker's address."""
    _tell_of_listeners(metadata)
    _tell_of_adopted(report.adopted_topics, metadata, address)
    _tell_of_strays(report.stray_partitions, found)
    for name in report.ignored_settings:
        logger.warning("the stored setting %s is invalid and has no effect: delete it", name)
    if not metadata.config.is_clustered:
        _tell_of_others(metadata.image, metadata.config.node_id)


def _tell_of_listeners(metadata: MetadataCache) -> None:
    endpoints = metadata.image.brokers[metadata.config.node_id].endpoints
    for listener in metadata.config.listeners:
        if listener.is_loopback:
            continue
        if not _authenticates(listener, metadata.config):
            logger.warning(
                "listener %s is open to other machines without authentication",
                listener.name,
            )
        if listener.name in endpoints:
            told = endpoints[listener.name]
            logger.info(
                "clients will connect to %s:%d; set advertised.listeners to change that",
                told.host,
                told.port,
            )


def _authenticates(listener: Listener, config: BrokerConfig) -> bool:
    if listener.security_protocol == "SSL":
        return config.for_listener(listener.name, "ssl.client.auth") == "required"
    return listener.security_protocol.startswith("SASL")


def _tell_of_adopted(topics: list[str], metadata: MetadataCache, address: str) -> None:
    adopted = [name for name in topics if not metadata.image.config("topic", name)]
    if adopted:
        from floodmark.broker.adoption_warning import adoption_warning

        text = adoption_warning(adopted, metadata.config.topic_defaults, address)
        logger.warning("%s", text)


def _tell_of_strays(strays: list[TopicPartition], found: Iterable[FoundPartition]) -> None:
    there = {(item.topic, item.partition) for item in found}
    for topic, partition in strays:
        if (topic, partition) in there:
            logger.warning(
                "the folder of %s-%d belongs to no topic of this cluster; leaving it alone",
                topic,
                partition,
            )


def _tell_of_others(image: MetadataImage, broker_id: int) -> None:
    others = {
        replica
        for topic in image.topics.values()
        for partition in topic.partitions
        if broker_id not in partition.replicas
        for replica in partition.replicas
    }
    if others:
        logger.error(
            "found partitions of broker %s, but this is broker %d, which does not serve them. If "
            "it is the same broker, set node.id and meta.properties to its old id",
            " and ".join(map(str, sorted(others))),
            broker_id,
        )
