"""This broker's node in the cluster: its identity, addresses and broker epoch.

Created by broker/cluster_membership.py. The node is ephemeral: it lives as long as the store's
session, so a broker without a session is not part of the cluster.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace

from floodmark.clock import Clock
from floodmark.metadata import paths
from floodmark.metadata.image import BrokerInfo
from floodmark.metadata.store import Create, NodeExists, NoNode, Store

LONGEST_WAIT_MS = 30_000
"""Longer than a session survives its process: a node still there after this is alive."""

RETRY_S = 0.05


class AlreadyRegistered(Exception):
    """Another broker uses this id."""


class Registration:
    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    async def register(self, broker: BrokerInfo) -> BrokerInfo:
        """Returns the broker with the epoch the store assigned (KIP-380).

        The node of an earlier run may remain for a while, until its session ends.
        """
        path = paths.broker_path(broker.id)
        data = paths.encode_broker(broker, self._clock.now_ms())
        deadline_ms = self._clock.monotonic_ms() + LONGEST_WAIT_MS
        while True:
            try:
                await self._store.multi([Create(path, data, ephemeral=True)])
                break
            except NodeExists:
                if self._clock.monotonic_ms() > deadline_ms:
                    raise AlreadyRegistered(
                        f"another broker is registered as {broker.id}; give this one its own "
                        f"id (node.id)"
                    ) from None
                await asyncio.sleep(RETRY_S)
        node = await self._store.get(path)
        if node is None:
            raise NoNode(path)
        return replace(broker, broker_epoch=node.created_zxid)
