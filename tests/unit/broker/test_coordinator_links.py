"""How the transaction coordinator reaches other brokers."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from floodmark.broker.coordinators import _Cluster
from floodmark.broker.links import BrokerLinks
from floodmark.metadata.cache import MetadataCache
from floodmark.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from floodmark.wire.messages.write_txn_markers import WriteTxnMarkersRequest


class Links:
    """Like the real ones: a connection answers one request after the other."""

    def __init__(self) -> None:
        self._connections: dict[tuple[int, str], asyncio.Lock] = {}
        self.followers_are_back = asyncio.Event()

    async def request(self, broker_id: int, message: Any, purpose: str) -> Any:
        async with self._connections.setdefault((broker_id, purpose), asyncio.Lock()):
            if isinstance(message, WriteTxnMarkersRequest):
                await self.followers_are_back.wait()
            return message


async def test_a_marker_that_waits_for_a_dead_follower_delays_no_other_transaction() -> None:
    links = Links()
    cluster = _Cluster(cast(MetadataCache, None), cast(BrokerLinks, links))
    marker = asyncio.create_task(cluster.request(2, WriteTxnMarkersRequest()))
    await asyncio.sleep(0)
    added = await asyncio.wait_for(cluster.request(2, AddPartitionsToTxnRequest()), timeout=5)
    assert added == AddPartitionsToTxnRequest()
    assert not marker.done()
    links.followers_are_back.set()
    await marker
