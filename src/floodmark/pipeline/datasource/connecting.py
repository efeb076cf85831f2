"""The clusters of a read or write, which wait for brokers that are away.

Called wherever the data source, its marks and groups open a cluster. One time limits every wait:
for the first connection, for metadata, for a coordinator, for a produce and for a fetch.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from floodmark.client.cluster.cluster import Cluster
from floodmark.client.settings import ClientSettings

# How long brokers may be away before a query fails. docs/pipelines.md promises it.
BROKER_ABSENCE_MS = 120_000


@asynccontextmanager
async def open_cluster(bootstrap_servers: str, settings: ClientSettings) -> AsyncIterator[Cluster]:
    """A connected cluster. `async with Cluster(...)` would try only once."""
    cluster = Cluster(bootstrap_servers, settings)
    try:
        await cluster.retry(cluster.connect, what="connecting to the brokers")
        yield cluster
    finally:
        await cluster.close()
