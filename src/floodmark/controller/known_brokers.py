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
from floodmark.metadata.image import BrokerInfo
from floodmark.metadata.store import SetData


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


def still_there(
    known: Mapping[int, BrokerInfo], registered: Mapping[int, BrokerInfo]
) -> dict[int, BrokerInfo]:
    """Whom an earlier controller knew, with what those say of themselves that still run."""
    return {
        broker_id: replace(registered[broker_id], is_shutting_down=broker.is_shutting_down)
        if not broker.is_fenced
        and broker_id in registered
        and registered[broker_id].broker_epoch == broker.broker_epoch
        else broker
        for broker_id, broker in known.items()
    }


def compare(known: Mapping[int, BrokerInfo], registered: Mapping[int, BrokerInfo]) -> BrokerChanges:
    """What has happened to brokers since the controller last looked."""
    present = {broker.id: broker for broker in known.values() if not broker.is_fenced}
    restarted = [
        broker
        for broker in registered.values()
        if broker.id in present and present[broker.id].broker_epoch != broker.broker_epoch
    ]
    gone = [broker_id for broker_id in present if broker_id not in registered]
    new = [broker for broker in registered.values() if broker.id not in present]
    return BrokerChanges(restarted, gone, new)
