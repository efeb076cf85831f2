"""This broker's node in the cluster: its identity, addresses and broker epoch.

Created by broker/cluster_membership.py. The node is ephemeral: it lives as long as the store's
session, so a broker without a session is not part of the cluster.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace

from floodmark.clock import Clock
from floodmark.metadata import paths
from floodmark.metadata.image import BrokerInfo
from floodmark.metadata.store import (
    Create,
    NodeExists,
    NoNode,
    Store,
    StoreRefused,
    StoreUnavailable,
)

logger = logging.getLogger(__name__)

LONGEST_WAIT_MS = 30_000
"""Longer than a session survives its process: a node still there after this is alive."""

RETRY_S = 0.05


class AlreadyRegistered(Exception):
    """Another broker uses this id."""


class Registration:
    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        # What this session writes. Always the same, so that we recognize our node after a lost
        # response.
        self._data: bytes | None = None

    def session_lost(self) -> None:
        """The node is gone, or about to be: it is not ours any more."""
        self._data = None

    async def register(self, broker: BrokerInfo) -> BrokerInfo:
        """Returns the broker with the epoch the store assigned (KIP-380).

        The node of an earlier run may remain for a while, until its session ends. A lost response
        is no reason to give up: the node may be there.
        """
        path = paths.broker_path(broker.id)
        data = self._data = self._data or paths.encode_broker(broker, self._clock.now_ms())
        deadline_ms = self._clock.monotonic_ms() + LONGEST_WAIT_MS
        is_told = False
        while True:
            try:
                await self._store.multi([Create(path, data, ephemeral=True)])
                break
            except NodeExists:
                if await self._is_there(path, data):
                    break
                if self._clock.monotonic_ms() > deadline_ms:
                    raise AlreadyRegistered(
                        f"another broker is registered as {broker.id}"
                    ) from None
                if not is_told:
                    is_told = True
                    logger.info(
                        "broker %d is still registered: waiting up to %d s for the session of its "
                        "earlier run to end",
                        broker.id,
                        LONGEST_WAIT_MS // 1000,
                    )
            except StoreRefused:
                raise
            except StoreUnavailable:
                if self._clock.monotonic_ms() > deadline_ms:
                    raise
            await asyncio.sleep(RETRY_S)
        node = await self._store.get(path)
        if node is None:
            raise NoNode(path)
        return replace(broker, broker_epoch=node.created_zxid)

    async def _is_there(self, path: str, data: bytes) -> bool:
        node = await self._store.get(path)
        return node is not None and node.data == data
