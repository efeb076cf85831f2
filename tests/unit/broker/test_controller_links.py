"""How a broker reaches the controller."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

from floodmark.broker.controller_client import ControllerClient
from floodmark.wire.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from floodmark.wire.messages.create_topics import CreateTopicsRequest


class Links:
    """Like the real ones: a connection answers one request after the other."""

    def __init__(self) -> None:
        self._connections: dict[str, asyncio.Lock] = {}
        self.topics_are_created = asyncio.Event()

    async def request(self, _: int, message: Any, purpose: str, **options: Any) -> Any:
        async with self._connections.setdefault(purpose, asyncio.Lock()):
            if isinstance(message, CreateTopicsRequest):
                await self.topics_are_created.wait()
            return AlterPartitionResponse()


async def test_a_forwarded_request_does_not_delay_a_change_of_in_sync_replicas() -> None:
    links = Links()
    metadata = SimpleNamespace(image=SimpleNamespace(controller_id=2))
    controller = SimpleNamespace(is_active=False)
    parts = cast(Any, (metadata, controller, links, SimpleNamespace(broker_epoch=1)))
    client = ControllerClient(1, *parts)
    forwarded = asyncio.create_task(client.request(CreateTopicsRequest()))
    await asyncio.sleep(0)
    changed = client.alter_partition(AlterPartitionRequest())
    assert await asyncio.wait_for(changed, timeout=5) == AlterPartitionResponse()
    assert not forwarded.done()
    links.topics_are_created.set()
    await forwarded
