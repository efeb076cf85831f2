"""The brokers that the controller has processed, kept in the store. PURE.

A broker that restarts may have lost records, so the controller must notice (KIP-380). A newly
elected controller could miss it, because it only sees who is registered now. So each decision about
brokers stores their epochs in the same multi, and a new controller compares them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from floodmark.metadata import paths
from floodmark.metadata.image import BrokerInfo, MetadataImage
from floodmark.metadata.store import SetData
from floodmark.vocabulary import NO_BROKER_EPOCH, NO_LEADER


class BrokerChanges(NamedTuple):
    """In processing order: a broker that restarted unnoticed must not be elected.

    Among those, the ones that may have lost records come first. Each leaves the in-sync replicas
    unless it is the last one there, which should be one that keeps all.
    """

    restarted: list[BrokerInfo]
    gone: list[int]
    new: list[BrokerInfo]


def remember(brokers: Mapping[int, BrokerInfo]) -> SetData:
    """The operation that stores the brokers the controller knows, including those that are gone."""
    known = {
        str(broker.id): {
            "epoch": broker.broker_epoch,
            "gone": broker.is_fenced,
            "stopping": broker.is_shutting_down,
        }
        for broker in brokers.values()
    }
    return SetData(paths.KNOWN_BROKERS, json.dumps(known, separators=(",", ":")).encode())


def recall(data: bytes) -> dict[int, BrokerInfo]:
    """The brokers an earlier controller knew, by id, with only their epochs."""
    known = json.loads(data) if data else {}
    return {
        int(text): BrokerInfo(
            int(text),
            int(one["epoch"]),
            {},
            is_fenced=bool(one["gone"]),
            is_shutting_down=bool(one.get("stopping")),
        )
        for text, one in known.items()
    }


def assumed(image: MetadataImage) -> dict[int, BrokerInfo]:
    """After a term of Kafka's controller, which stores no such record.

    Like Kafka, treats registered brokers as known, and in-sync replicas on unregistered ones as
    gone.
    """
    named = {
        broker_id
        for topic in image.topics.values()
        for partition in topic.partitions
        for broker_id in (partition.leader, *partition.isr)
    }
    absent = named - image.brokers.keys() - {NO_LEADER}
    return {**image.brokers, **{one: BrokerInfo(one, NO_BROKER_EPOCH, {}) for one in absent}}


def reachable(
    known: Mapping[int, BrokerInfo], seen: Mapping[int, BrokerInfo]
) -> dict[int, BrokerInfo]:
    """The brokers an earlier controller knew, with the addresses this broker last saw, so that
    those that lost their session can be told."""
    return {
        broker_id: replace(broker, endpoints=seen[broker_id].endpoints)
        if broker_id in seen and not broker.endpoints
        else broker
        for broker_id, broker in known.items()
    }


def still_there(
    known: Mapping[int, BrokerInfo], registered: Mapping[int, BrokerInfo]
) -> dict[int, BrokerInfo]:
    """The brokers an earlier controller knew, with the current registration of those that run."""
    return {
        broker_id: replace(
            registered[broker_id],
            is_fenced=broker.is_fenced,
            is_shutting_down=broker.is_shutting_down,
        )
        if _is_same_registration(broker, registered)
        else broker
        for broker_id, broker in known.items()
    }


def taken_for_dead(
    known: Mapping[int, BrokerInfo], registered: Mapping[int, BrokerInfo]
) -> dict[int, BrokerInfo]:
    """Brokers whose process is known to be gone but whose session has not ended yet."""
    return {
        broker.id: registered[broker.id]
        for broker in known.values()
        if broker.is_fenced and _is_same_registration(broker, registered)
    }


def _is_same_registration(broker: BrokerInfo, registered: Mapping[int, BrokerInfo]) -> bool:
    now = registered.get(broker.id)
    return now is not None and now.broker_epoch == broker.broker_epoch


def keeps_all(known: BrokerInfo | None, broker: BrokerInfo) -> bool:
    """Whether a registering broker has all records that it had when it was last known."""
    return known is not None and 0 <= broker.unbroken_since <= known.broker_epoch


def compare(known: Mapping[int, BrokerInfo], registered: Mapping[int, BrokerInfo]) -> BrokerChanges:
    """What happened to brokers since the controller last looked. The registration of a broker known
    to be gone is not news, only a new one is."""
    present = {broker.id: broker for broker in known.values() if not broker.is_fenced}
    restarted = [
        broker
        for broker in registered.values()
        if broker.id in present and present[broker.id].broker_epoch != broker.broker_epoch
    ]
    restarted.sort(key=lambda broker: keeps_all(present[broker.id], broker))
    gone = [broker_id for broker_id in present if broker_id not in registered]
    dead = taken_for_dead(known, registered)
    new = [b for b in registered.values() if b.id not in present and b.id not in dead]
    return BrokerChanges(restarted, gone, new)
