"""Connections from this broker to the other brokers of its cluster.

Used by the controller's channels, the followers' fetches, the transaction coordinator, and for
forwarding requests to the controller. Each purpose has its own connections: a waiting fetch must
not delay the controller's requests.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from floodmark.broker.link_security import inter_broker_security
from floodmark.metadata.cache import MetadataCache

if TYPE_CHECKING:
    from floodmark.client.cluster.connection import Address
    from floodmark.client.cluster.pool import ConnectionPool

MAX_IDLE_MS = 9 * 60_000
"""Shorter than the ten minutes after which a broker closes an idle connection."""


class BrokerLinks:
    def __init__(self, metadata: MetadataCache, client_id: str) -> None:
        self._metadata = metadata
        self._client_id = client_id
        self._listener = metadata.config.inter_broker_listener_name

    @cached_property
    def _pool(self) -> ConnectionPool:
        """Created, and its code imported, when there is another broker to contact."""
        from floodmark.client.cluster.connection import ConnectionOptions
        from floodmark.client.cluster.pool import ConnectionPool

        timeout_ms = self._metadata.config.get_int("controller.socket.timeout.ms")
        options = ConnectionOptions(
            client_id=self._client_id,
            request_timeout_ms=timeout_ms,
            security=inter_broker_security(lambda: self._metadata.config),
        )
        return ConnectionPool(options, max_idle_ms=MAX_IDLE_MS)

    async def request(
        self,
        broker_id: int,
        message: Any,
        purpose: str,
        *,
        timeout_ms: float | None = None,
        max_version: int | None = None,
    ) -> Any:
        """Returns the response, in the highest common version. Raises ConnectionError if there is
        none."""
        from floodmark.client.errors import KafkaError

        address = self._address(broker_id)
        try:
            connection = await self._pool.get(address, purpose)
            return await connection.request(message, timeout_ms=timeout_ms, max_version=max_version)
        except KafkaError as problem:
            raise ConnectionError(f"broker {broker_id} at {address}: {problem.text}") from problem

    async def close(self) -> None:
        if "_pool" in self.__dict__:
            await self._pool.close()

    def _address(self, broker_id: int) -> Address:
        from floodmark.client.cluster.connection import Address

        broker = self._metadata.image.brokers.get(broker_id)
        endpoint = None if broker is None else broker.endpoints.get(self._listener)
        if endpoint is None:
            raise ConnectionError(f"broker {broker_id} has no known listener {self._listener}")
        return Address(endpoint.host, endpoint.port)
