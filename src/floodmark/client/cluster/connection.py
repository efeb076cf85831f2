"""One TCP connection to a broker with many requests in flight.

Called by `cluster.py`, and by brokers that talk to each other. `await connection.request(message)`
uses the highest version both sides support, as negotiated with ApiVersions.
"""

from __future__ import annotations

import asyncio
import os
import random
import ssl
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from floodmark.client.cluster.authentication import authenticate
from floodmark.client.cluster.frames import FrameReceiver
from floodmark.client.cluster.tls_errors import tls_failure
from floodmark.client.errors import (
    ConnectionFailed,
    KafkaError,
    RequestTimedOut,
    UnsupportedApi,
    raise_for_code,
)
from floodmark.wire.api_keys import ApiKey
from floodmark.wire.compiler import decode, encode_parts
from floodmark.wire.errors import ErrorCode
from floodmark.wire.headers import (
    RequestHeader,
    decode_response_header,
    encode_request_header,
    response_header_version,
)
from floodmark.wire.messages import response_class
from floodmark.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from floodmark.wire.schema import WireError, schema_of

if TYPE_CHECKING:
    from floodmark.client.cluster.security import Security

SOFTWARE_NAME = "floodmark-python"
# Far above fetch.max.bytes: only a peer that is not a Kafka broker exceeds it.
MAX_FRAME_BYTES = 512 * 1024 * 1024
GOODBYE_S = 1.0
"""How long closing an encrypted connection may take."""


class Address(NamedTuple):
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class ConnectionOptions:
    client_id: str = "floodmark"
    software_version: str = "unknown"
    connect_timeout_ms: float = 10_000
    request_timeout_ms: float = 30_000
    max_frame_bytes: int = MAX_FRAME_BYTES
    # None for PLAINTEXT.
    security: Security | None = None


class Connection:
    """Use `Connection.open`; it is ready for requests when it returns."""

    def __init__(self, address: Address, options: ConnectionOptions) -> None:
        self.address = address
        self._options = options
        self._receiver = FrameReceiver(options.max_frame_bytes, self._on_frame, self._on_lost)
        self._waiting: dict[int, asyncio.Future[memoryview]] = {}
        self._correlation_id = 0
        self._lost: KafkaError | None = None
        self.versions: dict[int, tuple[int, int]] = {}
        self.finalized_features: dict[str, int] = {}
        loop = asyncio.get_running_loop()
        self._loop = loop
        self.last_used = loop.time()
        # When the broker last failed to respond in time, which ends the connection.
        self.timed_out_at: float | None = None
        # When to renew the SASL session, and the task that does it.
        self._renew_at: float | None = None
        self._renewing: asyncio.Task[None] | None = None

    @classmethod
    async def open(
        cls, host: str, port: int, options: ConnectionOptions | None = None
    ) -> Connection:
        connection = cls(Address(host, port), options or ConnectionOptions())
        await connection._connect()
        try:
            await connection._negotiate()
            await connection._authenticate()
        except BaseException:
            connection.abort()
            raise
        return connection

    @property
    def is_open(self) -> bool:
        return self._lost is None

    @property
    def in_flight(self) -> int:
        return len(self._waiting)

    def supports(self, api_key: ApiKey, version: int = 0) -> bool:
        """Whether the broker serves this API at this version or a later one."""
        return api_key in self.versions and self.versions[api_key][1] >= version

    async def request(
        self, message: Any, *, timeout_ms: float | None = None, max_version: int | None = None
    ) -> Any:
        """Sends a message and waits for its response."""
        schema = schema_of(type(message))
        assert schema.api_key is not None
        version = self.version_for(type(message), max_version)
        if self._renew_at is not None and self._loop.time() >= self._renew_at:
            await self._renew()
        frame = await self._exchange(message, schema.api_key, version, timeout_ms)
        return self._decode(frame, schema.api_key, version)

    async def send(self, message: Any, *, max_version: int | None = None) -> None:
        """Sends a message that has no response: a produce with acks=0."""
        version = self.version_for(type(message), max_version)
        if self._renew_at is not None and self._loop.time() >= self._renew_at:
            await self._renew()
        self._write(message, version)
        await self._receiver.writable()

    def version_for(self, message_class: type, max_version: int | None = None) -> int:
        schema = schema_of(message_class)
        assert schema.api_key is not None
        ours_lowest, ours_highest = schema.versions
        if max_version is not None:
            ours_highest = min(ours_highest, max_version)
        if schema.api_key not in self.versions:
            raise UnsupportedApi(f"the broker at {self.address} does not serve {schema.name}")
        lowest, highest = self.versions[schema.api_key]
        version = min(ours_highest, highest)
        if version < max(ours_lowest, lowest):
            raise UnsupportedApi(
                f"the broker at {self.address} serves {schema.name} "
                f"versions {lowest} to {highest}, this client needs {ours_lowest} to {ours_highest}"
            )
        return version

    async def close(self) -> None:
        """Closes the connection. Pending requests fail with ConnectionFailed."""
        if self._lost is None:
            self._receiver.transport.close()
            self._on_lost(None)
        if self._options.security is not None:
            await self._goodbye()
        # The transport frees its socket in a callback that is already scheduled.
        await asyncio.sleep(0)

    async def _goodbye(self) -> None:
        """Sends TLS's closing message and waits for the peer's."""
        try:
            async with asyncio.timeout(GOODBYE_S):
                await self._receiver.ended()
        except TimeoutError:
            self._receiver.transport.abort()

    def abort(self, error: KafkaError | None = None) -> None:
        """Drops the connection. Pending requests fail with this error, or ConnectionFailed."""
        if self._lost is None:
            self._receiver.transport.abort()
            if error is not None:
                self._fail(error)
            self._on_lost(None)

    async def _connect(self) -> None:
        timeout_ms = self._options.connect_timeout_ms
        security = self._options.security
        context = None if security is None else security.context()
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await self._loop.create_connection(
                    lambda: self._receiver, self.address.host, self.address.port, ssl=context
                )
        except TimeoutError:
            raise ConnectionFailed(
                f"could not connect to {self.address} within {timeout_ms:.0f} ms"
            ) from None
        except UnicodeError as error:
            raise ConnectionFailed(
                f"cannot connect to {self.address}: the host name is invalid"
            ) from error
        except ssl.SSLError as error:
            raise tls_failure(str(self.address), error) from error
        except OSError as error:
            # asyncio prepends its own text to the system's, which is clearer. Resolver errors have
            # negative numbers.
            if context is not None and error.errno is None:
                raise ConnectionFailed(
                    f"{self.address} closed the connection during the TLS handshake: is it a "
                    "listener without TLS?"
                ) from error
            number = error.errno or 0
            reason = os.strerror(number) if number > 0 else error.strerror or str(error)
            raise ConnectionFailed(f"cannot connect to {self.address}: {reason}") from error

    async def _authenticate(self) -> None:
        security = self._options.security
        if security is None or not security.uses_sasl:
            return
        lifetime_ms = await authenticate(
            str(self.address), security.mechanism_name, await security.mechanism(), self._ask
        )
        # Kafka's clients pick a random moment, so they do not all renew at once (KIP-368).
        share = random.uniform(0.85, 0.95)
        self._renew_at = self._loop.time() + share * lifetime_ms / 1000 if lifetime_ms else None

    async def _renew(self) -> None:
        """Reauthenticates once for all waiting requests: the broker accepts no others meanwhile."""
        if self._renewing is None:
            self._renewing = asyncio.create_task(self._authenticate())
        try:
            await asyncio.shield(self._renewing)
        except KafkaError:
            self.abort()
            raise
        finally:
            if self._renewing is not None and self._renewing.done():
                self._renewing = None

    async def _ask(self, message: Any, max_version: int | None = None) -> Any:
        schema = schema_of(type(message))
        assert schema.api_key is not None
        version = self.version_for(type(message), max_version)
        frame = await self._exchange(message, schema.api_key, version, None)
        return self._decode(frame, schema.api_key, version)

    async def _negotiate(self) -> None:
        """Sends ApiVersions at our highest version.

        A broker that lacks it responds with error 35 in the v0 format and its own range
        (KIP-511). We then ask again within that range.
        """
        version = schema_of(ApiVersionsRequest).versions[1]
        response = await self._api_versions(version)
        if response.error_code == ErrorCode.UNSUPPORTED_VERSION:
            ranges = {key.api_key: key.max_version for key in response.api_keys}
            version = min(version, ranges.get(ApiKey.API_VERSIONS, 0))
            response = await self._api_versions(version)
        raise_for_code(response.error_code, f"{self.address} refused ApiVersions")
        self.versions = {
            key.api_key: (key.min_version, key.max_version) for key in response.api_keys
        }
        self.finalized_features = {
            feature.name: feature.max_version_level for feature in response.finalized_features
        }

    async def _api_versions(self, version: int) -> ApiVersionsResponse:
        message = ApiVersionsRequest(
            client_software_name=SOFTWARE_NAME,
            client_software_version=self._options.software_version,
        )
        try:
            frame = await self._exchange(message, ApiKey.API_VERSIONS, version, None)
        except ConnectionFailed as error:
            raise ConnectionFailed(
                f"{self.address} accepted the connection but did not respond like a Kafka broker "
                f"({error.text}): check the port and security.protocol"
            ) from error
        # The response header is always v0 here, so the error code follows the correlation id.
        refused = int.from_bytes(frame[4:6], "big", signed=True) == ErrorCode.UNSUPPORTED_VERSION
        response: ApiVersionsResponse = self._decode(
            frame, ApiKey.API_VERSIONS, 0 if refused else version
        )
        return response

    async def _exchange(
        self, message: Any, api_key: ApiKey, version: int, timeout_ms: float | None
    ) -> memoryview:
        timeout_ms = self._options.request_timeout_ms if timeout_ms is None else timeout_ms
        correlation_id = self._write(message, version)
        future: asyncio.Future[memoryview] = self._loop.create_future()
        self._waiting[correlation_id] = future
        timer = self._loop.call_later(timeout_ms / 1000, self._time_out, api_key, timeout_ms)
        try:
            return await future
        finally:
            timer.cancel()

    def _write(self, message: Any, version: int) -> int:
        if self._lost is not None:
            raise self._lost
        schema = schema_of(type(message))
        assert schema.api_key is not None
        self._correlation_id = correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        parts: list[Any] = [
            b"",
            encode_request_header(
                RequestHeader(schema.api_key, version, correlation_id, self._options.client_id)
            ),
        ]
        encode_parts(message, version, parts)
        parts[0] = sum(map(len, parts)).to_bytes(4, "big")
        self._receiver.transport.write(b"".join(parts))
        self.last_used = self._loop.time()
        return correlation_id

    def _decode(self, frame: memoryview, api_key: ApiKey, version: int) -> Any:
        try:
            _, offset = decode_response_header(frame, response_header_version(api_key, version))
            return decode(response_class(api_key), frame, version, offset)
        except WireError as error:
            self.abort()
            raise ConnectionFailed(
                f"{self.address} sent an invalid {api_key.name} response: {error}"
            ) from error

    def _time_out(self, api_key: ApiKey, timeout_ms: float) -> None:
        # Responses come in order, so all later requests would hang too: drop the connection.
        self.timed_out_at = self._loop.time()
        self._receiver.transport.abort()
        self._fail(
            RequestTimedOut(
                f"{self.address} did not respond to {api_key.name} in {timeout_ms:.0f} ms"
            )
        )

    def _on_frame(self, frame: memoryview) -> None:
        correlation_id = int.from_bytes(frame[:4], "big", signed=True)
        future = self._waiting.pop(correlation_id, None)
        if future is None:
            self._receiver.transport.abort()
            self._fail(ConnectionFailed(f"{self.address} sent a response without a request"))
        elif not future.done():
            future.set_result(frame)

    def _on_lost(self, error: Exception | None) -> None:
        reason = f": {error}" if error is not None else ""
        self._fail(ConnectionFailed(f"the connection to {self.address} was closed{reason}"))

    def _fail(self, error: KafkaError) -> None:
        if self._lost is None:
            self._lost = error
        waiting, self._waiting = self._waiting, {}
        for future in waiting.values():
            if not future.done():
                future.set_exception(error)
