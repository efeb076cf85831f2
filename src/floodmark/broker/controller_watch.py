"""Deposes a controller whose process is gone, before its session expires.

Created by cluster_membership.py on brokers that are not the controller. The election rules keep
this safe: the node is removed only while the controller epoch is still the dead controller's. If
that controller lives after all, the epoch check refuses its writes (KAFKA-6082).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from floodmark.controller.liveness import UntilGone
from floodmark.metadata import paths
from floodmark.metadata.image import BrokerInfo
from floodmark.metadata.loader import decoding
from floodmark.metadata.store import Check, Delete, Store, StoreError

logger = logging.getLogger(__name__)

RETRY_S = 0.1


class ControllerWatch:
    def __init__(self, store: Store, until_gone: UntilGone, on_deposed: Callable[[], None]) -> None:
        """`on_deposed` is called when there is no controller: stand for election."""
        self._store = store
        self._until_gone = until_gone
        self._on_deposed = on_deposed
        self._watched: BrokerInfo | None = None
        self._task: asyncio.Task[None] | None = None
        # The broker whose process was found dead. The next controller must know.
        self.dead: BrokerInfo | None = None

    async def follow(self, controller: int, listener: str) -> None:
        """Watches this broker under its current registration."""
        node = await self._store.get(paths.broker_path(controller))
        if node is None:
            await self.close()
            return
        with decoding():
            broker = paths.decode_broker(controller, node.data, node.created_zxid)
        endpoint = broker.endpoints.get(listener)
        if broker != self._watched and endpoint is not None:
            await self.close()
            self._watched = broker
            self._task = asyncio.create_task(self._watch(broker, endpoint.host, endpoint.port))

    async def close(self) -> None:
        task, self._task, self._watched = self._task, None, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _watch(self, broker: BrokerInfo, host: str, port: int) -> None:
        await self._until_gone(host, port)
        self.dead = broker
        while True:
            try:
                await self._depose(broker)
                break
            except StoreError as problem:
                # Another broker may have been faster, as the next look will show.
                logger.info("the controller is gone but could not be deposed yet: %s", problem)
                await asyncio.sleep(RETRY_S)
        self._on_deposed()

    async def _depose(self, broker: BrokerInfo) -> None:
        """Reads the epoch first: an election in the meantime makes the check fail."""
        epoch = await self._store.get(paths.CONTROLLER_EPOCH)
        node = await self._store.get(paths.CONTROLLER)
        registration = await self._store.get(paths.broker_path(broker.id))
        if epoch is None or node is None:
            return
        with decoding():
            controller = paths.decode_controller(node.data)
        if controller != broker.id:
            return
        if registration is not None and registration.created_zxid != broker.broker_epoch:
            return
        logger.warning("controller %d is gone: its port refuses connections", broker.id)
        await self._store.multi(
            [Check(paths.CONTROLLER_EPOCH, epoch.version), Delete(paths.CONTROLLER)]
        )
