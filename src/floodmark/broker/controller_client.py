"""This broker's own requests to the controller, local or remote.

Used by the coordinators, automatic topic creation, forwarding (`apis/forwarding.py`) and the
shutdown. On the controller it is a call, elsewhere a network request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from floodmark.broker.links import BrokerLinks
from floodmark.controller.controller import Controller
from floodmark.controller.decision import ControllerUnavailable
from floodmark.controller.features import ProducerIdBlock
from floodmark.controller.isr_messages import proposals_of, response_of
from floodmark.controller.topics import CreatedTopic, NewTopic
from floodmark.metadata.cache import MetadataCache
from floodmark.replication.control_fence import ControlFence
from floodmark.vocabulary import TopicPartition
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from floodmark.wire.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from floodmark.wire.messages.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
)
from floodmark.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

OWN, FORWARDED = "to-controller", "forwarded-to-controller"
"""Each has its own connection: a topic of thousands of partitions, which a client creates, must not
delay a change of in-sync replicas that producers wait for."""

CREATE_TIMEOUT_MS = 30_000


class ControllerClient:
    def __init__(
        self,
        broker_id: int,
        metadata: MetadataCache,
        controller: Controller,
        links: BrokerLinks,
        fence: ControlFence,
    ) -> None:
        self._broker_id = broker_id
        self._metadata = metadata
        self._controller = controller
        self._links = links
        self._fence = fence

    async def create_topics(self, topics: Sequence[NewTopic]) -> list[CreatedTopic]:
        if self._controller.is_active:
            return await self._controller.create_topics(topics)
        response: CreateTopicsResponse = await self.request(
            CreateTopicsRequest(
                topics=[_creatable(topic) for topic in topics], timeout_ms=CREATE_TIMEOUT_MS
            )
        )
        return [
            CreatedTopic(topic.name, ErrorCode.of(topic.error_code), topic.error_message)
            for topic in response.topics
        ]

    async def allocate_producer_ids(self) -> ProducerIdBlock:
        if self._controller.is_active:
            return await self._controller.allocate_producer_ids(self._broker_id)
        response: AllocateProducerIdsResponse = await self.request(
            AllocateProducerIdsRequest(
                broker_id=self._broker_id, broker_epoch=self._fence.broker_epoch
            ),
            purpose=OWN,
        )
        _check(response.error_code)
        return ProducerIdBlock(response.producer_id_start, response.producer_id_len)

    async def alter_partition(self, request: AlterPartitionRequest) -> AlterPartitionResponse:
        """Raises ConnectionError if there is no controller or it does not respond."""
        try:
            if not self._controller.is_active:
                response: AlterPartitionResponse = await self.request(request, purpose=OWN)
                return response
            answer = await self._controller.alter_partitions(
                request.broker_id, request.broker_epoch, proposals_of(request)
            )
        except ControllerUnavailable as problem:
            raise ConnectionError(str(problem)) from problem
        return response_of(answer)

    async def controlled_shutdown(self, timeout_ms: float) -> list[TopicPartition]:
        """Hands over the leaderships of this broker. Returns the partitions that it still leads."""
        epoch = self._fence.broker_epoch
        if self._controller.is_active:
            answer = await self._controller.controlled_shutdown(self._broker_id, epoch)
            _check(answer.error_code)
            return list(answer.remaining)
        request = ControlledShutdownRequest(broker_id=self._broker_id, broker_epoch=epoch)
        response: ControlledShutdownResponse = await self.request(
            request, timeout_ms=timeout_ms, purpose=OWN
        )
        _check(response.error_code)
        return [(one.topic_name, one.partition_index) for one in response.remaining_partitions]

    async def others_told(self, timeout_s: float) -> None:
        """On the controller: waits until the other brokers know its decisions."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._controller.others_told()
        except TimeoutError:
            pass

    async def request(
        self,
        message: Any,
        max_version: int | None = None,
        timeout_ms: float | None = None,
        purpose: str = FORWARDED,
    ) -> Any:
        """Sends a request to the controller. Raises ControllerUnavailable if none responds."""
        controller_id = self._metadata.image.controller_id
        if controller_id in (-1, self._broker_id):
            raise ControllerUnavailable(ErrorCode.NOT_CONTROLLER, "there is no controller")
        try:
            return await self._links.request(
                controller_id, message, purpose, timeout_ms=timeout_ms, max_version=max_version
            )
        except OSError as problem:
            raise ControllerUnavailable(ErrorCode.NOT_CONTROLLER, str(problem)) from problem


def _creatable(topic: NewTopic) -> CreatableTopic:
    return CreatableTopic(
        name=topic.name,
        num_partitions=topic.num_partitions,
        replication_factor=topic.replication_factor,
        configs=[
            CreatableTopicConfig(name=name, value=value)
            for name, value in (topic.configs or {}).items()
        ],
    )


def _check(error_code: int) -> None:
    code = ErrorCode.of(error_code)
    if code is not ErrorCode.NONE:
        raise ControllerUnavailable(code, f"the controller refused: {code.name}")
