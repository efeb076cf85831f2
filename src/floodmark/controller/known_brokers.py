"""Which brokers the controller has dealt with, kept in the store. PURE.

A broker that restarts may have lost records, so the controller must not miss it (KIP-380). The one
that is elected next could: all it finds is who is registered now. So each decision about brokers
stores their epochs, in the same multi, and a new controller compares.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from floodmark.metadata import paths
from floodmark.metadata.image import BrokerInfo, MetadataImage
from floodmark.metadata.store import SetData
from floodmark.vocabulary import NO_LEADER

UNKNOWN_EPOCH = -1


class BrokerChanges(NamedTuple):
    """In the order in which to deal with them: nobody is elected who has restarted unnoticed."""

    restarted: list[BrokerInfo]
    gone: list[int]
    new: list[BrokerInfo]


def remember(brokers: Mapping[int, BrokerInfo]) -> SetData:
    """The operation that stores whom the controller knows, also those that are gone."""
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
    """Whom an earlier controller knew, by id; nothing but their epochs."""
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
    """After a reign of Kafka's controller, which leaves no note: as it does, those that are
    registered are taken for known, and those that are in sync but not registered for gone."""
    named = {
        broker_id
        for topic in image.topics.values()
        for partition in topic.partitions
        for broker_id in (partition.leader, *partition.isr)
    }
    absent = named - image.brokers.keys() - {NO_LEADER}
    return {**image.brokers, **{one: BrokerInfo(one, UNKNOWN_EPOCH, {}) for one in absent}}


def still_there(
    known: Mapping[int, BrokerInfo], registered: Mapping[int, BrokerInfo]
) -> dict[int, BrokerInfo]:
    """Whom an earlier controller knew, with what those say of themselves that still run."""
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
    """Those whose process was found to be gone and whose session has not ended yet."""
    return {
        broker.id: registered[broker.id]
        for broker in known.values()
        if broker.is_fenced and _is_same_registration(broker, registered)
    }


def _is_same_registration(broker: BrokerInfo, registered: Mapping[int, BrokerInfo]) -> bool:
    now = registered.get(broker.id)
    return now is not None and now.broker_epoch == broker.broker_epoch


def compare(known: Mapping[int, BrokerInfo], registered: Mapping[int, BrokerInfo]) -> BrokerChanges:
    """What has happened to brokers since the controller last looked. The registration of a broker
    that was found to be gone is no news: only a new one is."""
    present = {broker.id: broker for broker in known.values() if not broker.is_fenced}
    restarted = [
        broker
        for broker in registered.values()
        if broker.id in present and present[broker.id].broker_epoch != broker.broker_epoch
    ]
    gone = [broker_id for broker_id in present if broker_id not in registered]
    dead = taken_for_dead(known, registered)
    new = [b for b in registered.values() if b.id not in present and b.id not in dead]
    return BrokerChanges(restarted, gone, new)
