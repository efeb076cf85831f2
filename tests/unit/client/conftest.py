"""A broker that answers from a script, so that a test decides what goes wrong and when."""

import asyncio
import inspect
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from floodmark.wire.api_keys import ApiKey
from floodmark.wire.compiler import decode, encode
from floodmark.wire.errors import ErrorCode
from floodmark.wire.headers import decode_request_header, response_header_encoder
from floodmark.wire.messages import request_class
from floodmark.wire.messages.api_versions import ApiVersion, ApiVersionsResponse
from floodmark.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from floodmark.wire.schema import schema_of
from kit.partition_leader import Leader


class ScriptedBroker:
    """Serves Metadata of its topics by itself; everything else is what the test puts into `on`.

    A script returns a message, something awaitable that becomes one, or one of these:
    """

    # Nothing for ever, or the end of the connection.
    silence = object()
    hang_up = object()

    def __init__(self) -> None:
        self.on: dict[ApiKey, Callable[[Any, int], Any]] = {
            ApiKey.METADATA: self._metadata,
            ApiKey.API_VERSIONS: self._api_versions,
        }
        self.topics: dict[str, int] = {}
        self.node_id = 1
        self.leader_epoch = 0
        self.seen: dict[ApiKey, list[Any]] = defaultdict(list)
        self._news = asyncio.Event()
        self.version_limits: dict[ApiKey, int] = {}
        self.port = 0
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close()
        for writer in self._writers:
            writer.close()
        await self._server.wait_closed()
        # The handlers end when they see their connection closed.
        await asyncio.sleep(0.01)

    async def until_seen(self, api_key: ApiKey, count: int) -> None:
        """Wait until this many requests of an API have come."""
        while len(self.seen[api_key]) < count:
            self._news.clear()
            await self._news.wait()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            while True:
                size = int.from_bytes(await reader.readexactly(4), "big")
                answer = await self._answer(await reader.readexactly(size))
                if answer is self.hang_up:
                    break
                if isinstance(answer, bytes):
                    writer.write(len(answer).to_bytes(4, "big") + answer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self._writers.discard(writer)
            writer.close()

    async def _answer(self, frame: bytes) -> object:
        header, offset = decode_request_header(frame)
        api_key, version = ApiKey(header.api_key), header.api_version
        limit = self.version_limits.get(api_key)
        if api_key is ApiKey.API_VERSIONS and limit is not None and version > limit:
            response: Any = self._api_versions(None, version)
            response.error_code = ErrorCode.UNSUPPORTED_VERSION
            return response_header_encoder(api_key, 0)(header.correlation_id) + encode(response, 0)
        request = decode(request_class(api_key), memoryview(frame), version, offset)
        self.seen[api_key].append(request)
        self._news.set()
        response = self.on[api_key](request, version)
        if inspect.isawaitable(response):
            response = await response
        if response is self.hang_up or response is self.silence:
            return response
        head = response_header_encoder(api_key, version)(header.correlation_id)
        return head + encode(response, version)

    def _api_versions(self, _request: Any, _version: int) -> ApiVersionsResponse:
        keys = []
        for api_key in self.on:
            lowest, highest = schema_of(request_class(api_key)).versions
            highest = self.version_limits.get(api_key, highest)
            keys.append(ApiVersion(api_key=api_key, min_version=lowest, max_version=highest))
        return ApiVersionsResponse(api_keys=keys)

    def _metadata(self, request: Any, _version: int) -> MetadataResponse:
        wanted = list(self.topics) if request.topics is None else [t.name for t in request.topics]
        return MetadataResponse(
            brokers=[
                MetadataResponseBroker(node_id=self.node_id, host="127.0.0.1", port=self.port)
            ],
            cluster_id="scripted",
            controller_id=self.node_id,
            topics=[self._topic(name) for name in wanted],
        )

    def _topic(self, name: str) -> MetadataResponseTopic:
        if name not in self.topics:
            return MetadataResponseTopic(error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, name=name)
        return MetadataResponseTopic(
            name=name,
            partitions=[
                MetadataResponsePartition(
                    partition_index=index,
                    leader_id=self.node_id,
                    leader_epoch=self.leader_epoch,
                    replica_nodes=[self.node_id],
                    isr_nodes=[self.node_id],
                )
                for index in range(self.topics[name])
            ],
        )


@pytest.fixture
async def scripted() -> AsyncIterator[ScriptedBroker]:
    broker = ScriptedBroker()
    await broker.start()
    try:
        yield broker
    finally:
        await broker.stop()


@pytest.fixture
def leader(scripted: ScriptedBroker) -> Leader:
    """The leader of topic t on the scripted broker."""
    scripted.topics["t"] = 1
    return Leader(scripted)
