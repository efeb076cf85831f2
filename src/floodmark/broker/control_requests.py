"""Handles the controller's requests: UpdateMetadata, LeaderAndIsr, StopReplica.

Called by the API modules of those names. All three change the image (`controller/told.py`), and
publishing it updates the partitions. Handles one request at a time, in order. Refuses requests from
an older controller, or for an earlier incarnation of this broker. The requests do not carry
settings, so those of a new topic are read from the store before its first record arrives.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from typing import TypeAlias

from floodmark.broker.settings_reader import TopicSettings
from floodmark.controller.controller import Controller
from floodmark.controller.instructions import LEADER_DURING_DELETE
from floodmark.controller.told import (
    after_leader_and_isr,
    after_stop_replica,
    after_update_metadata,
    stopped_by,
)
from floodmark.metadata.cache import MetadataCache
from floodmark.metadata.image import ImageChange, MetadataImage
from floodmark.replication.control_fence import ControlFence
from floodmark.replication.replica_manager import ReplicaManager
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages.leader_and_isr import LeaderAndIsrRequest
from floodmark.wire.messages.stop_replica import StopReplicaRequest
from floodmark.wire.messages.update_metadata import UpdateMetadataRequest

SettingsOf: TypeAlias = Callable[[Collection[str]], Awaitable[TopicSettings]]


class ControlRequests:
    def __init__(
        self,
        broker_id: int,
        metadata: MetadataCache,
        controller: Controller,
        fence: ControlFence,
        replicas: ReplicaManager,
        settings_of: SettingsOf,
    ) -> None:
        self._broker_id = broker_id
        self._metadata = metadata
        self._controller = controller
        self._fence = fence
        self._replicas = replicas
        self._settings_of = settings_of
        self._turn = asyncio.Lock()
        # Set once the controller has contacted this broker.
        self.was_told = asyncio.Event()

    async def update_metadata(self, request: UpdateMetadataRequest) -> ErrorCode:
        return await self._obey(request, lambda image: after_update_metadata(image, request))

    async def leader_and_isr(self, request: LeaderAndIsrRequest) -> ErrorCode:
        return await self._obey(request, lambda image: after_leader_and_isr(image, request))

    async def stop_replica(self, request: StopReplicaRequest) -> ErrorCode:
        error_code = await self._obey(
            request, lambda image: after_stop_replica(image, request, self._broker_id)
        )
        if error_code is ErrorCode.NONE:
            for topic, index, leader_epoch in stopped_by(request):
                self._replicas.stop_following((topic, index), leader_epoch)
        return error_code

    async def _obey(
        self,
        request: UpdateMetadataRequest | LeaderAndIsrRequest | StopReplicaRequest,
        change: Callable[[MetadataImage], MetadataImage],
    ) -> ErrorCode:
        async with self._turn:
            settings = await self._new_settings(request)
            # No wait from here to the new image: we may be elected at any time.
            refused = self._why_not(request.controller_epoch, request.broker_epoch)
            if refused is not ErrorCode.NONE:
                return refused
            if self._controller.is_active:
                # A controller with a later epoch: we were replaced without knowing.
                self._controller.deposed()
            image = change(self._metadata.image)
            if settings:
                image = image.apply(ImageChange(configs=settings))
            await self._metadata.publish(image)
            self.was_told.set()
            return ErrorCode.NONE

    def _why_not(self, controller_epoch: int, broker_epoch: int) -> ErrorCode:
        """The error for an outdated request. The store may have shown us a later controller, or
        made us the controller."""
        if controller_epoch < self._metadata.image.controller_epoch:
            return ErrorCode.STALE_CONTROLLER_EPOCH
        return self._fence.check(controller_epoch, broker_epoch)

    async def _new_settings(
        self, request: UpdateMetadataRequest | LeaderAndIsrRequest | StopReplicaRequest
    ) -> TopicSettings:
        if not isinstance(request, UpdateMetadataRequest):
            return {}
        known = self._metadata.image.topics_by_id
        new = [
            state.topic_name
            for state in request.topic_states
            if state.topic_id not in known
            and any(one.leader != LEADER_DURING_DELETE for one in state.partition_states)
        ]
        return await self._settings_of(new) if new else {}
