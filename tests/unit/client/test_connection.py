"""One connection: versions, answers, and every way in which a peer can misbehave."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from floodmark.client.cluster.connection import Connection, ConnectionOptions
from floodmark.client.errors import ConnectionFailed, RequestTimedOut, UnsupportedApi
from floodmark.wire.api_keys import ApiKey
from floodmark.wire.messages.api_versions import ApiVersionsRequest
from floodmark.wire.messages.create_topics import CreateTopicsRequest
from floodmark.wire.messages.metadata import MetadataRequest, MetadataRequestTopic


async def open_to(scripted: object, **options: float) -> Connection:
    port: int = scripted.port  # type: ignore[attr-defined]
    return await Connection.open("127.0.0.1", port, ConnectionOptions(**options))  # type: ignore[arg-type]


@asynccontextmanager
async def raw_server(
    handler: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]],
) -> AsyncIterator[int]:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await handler(reader, writer)
            await writer.drain()
        except ConnectionError:
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        await server.wait_closed()
        await asyncio.sleep(0.01)


async def test_the_highest_common_version_is_spoken(scripted) -> None:
    scripted.version_limits[ApiKey.METADATA] = 9
    connection = await open_to(scripted)
    assert connection.version_for(MetadataRequest) == 9
    assert connection.version_for(MetadataRequest, max_version=5) == 5
    response = await connection.request(MetadataRequest(topics=[]))
    assert response.cluster_id == "scripted"
    await connection.close()


async def test_the_client_names_itself(scripted) -> None:
    connection = await open_to(scripted)
    (hello,) = scripted.seen[ApiKey.API_VERSIONS]
    assert hello.client_software_name == "floodmark-python"
    await connection.close()


async def test_a_broker_without_our_api_versions_version_is_asked_again_in_its_own(
    scripted,
) -> None:
    scripted.version_limits[ApiKey.API_VERSIONS] = 2
    connection = await open_to(scripted)
    assert connection.version_for(ApiVersionsRequest) == 2
    assert len(scripted.seen[ApiKey.API_VERSIONS]) == 1
    await connection.close()


async def test_an_api_that_the_broker_lacks_is_named(scripted) -> None:
    connection = await open_to(scripted)
    with pytest.raises(UnsupportedApi, match="CreateTopics"):
        await connection.request(CreateTopicsRequest())
    await connection.close()


async def test_a_version_range_without_overlap_is_explained(scripted) -> None:
    scripted.version_limits[ApiKey.METADATA] = -1
    connection = await open_to(scripted)
    with pytest.raises(UnsupportedApi, match="this client needs 0 to"):
        await connection.request(MetadataRequest(topics=[]))
    await connection.close()


async def test_many_requests_share_the_connection_and_each_gets_its_own_answer(scripted) -> None:
    scripted.topics = {f"t{number}": 1 for number in range(20)}
    connection = await open_to(scripted)
    requests = [
        connection.request(MetadataRequest(topics=[MetadataRequestTopic(name=f"t{number}")]))
        for number in range(20)
    ]
    responses = await asyncio.gather(*requests)
    assert [response.topics[0].name for response in responses] == list(scripted.topics)
    await connection.close()


async def test_large_answers_arrive_whole(scripted) -> None:
    scripted.topics = {"t" * 200 + str(number): 20 for number in range(300)}
    connection = await open_to(scripted)
    response = await connection.request(MetadataRequest(topics=None))
    assert len(response.topics) == 300
    assert all(len(topic.partitions) == 20 for topic in response.topics)
    await connection.close()


async def test_no_answer_in_time_fails_all_that_wait_and_ends_the_connection(scripted) -> None:
    connection = await open_to(scripted, request_timeout_ms=50)
    scripted.on[ApiKey.METADATA] = lambda *_: scripted.silence
    results = await asyncio.gather(
        *(connection.request(MetadataRequest(topics=[])) for _ in range(3)), return_exceptions=True
    )
    assert all(isinstance(result, RequestTimedOut) for result in results)
    assert not connection.is_open


async def test_a_refused_connection_says_where_and_why() -> None:
    async with raw_server(lambda *_: asyncio.sleep(0)) as port:
        pass
    with pytest.raises(ConnectionFailed, match=f"127.0.0.1:{port}: Connection refused"):
        await Connection.open("127.0.0.1", port)


async def test_a_peer_that_hangs_up_is_not_taken_for_a_broker() -> None:
    async with raw_server(lambda *_: asyncio.sleep(0)) as port:
        with pytest.raises(ConnectionFailed, match="did not respond like a Kafka broker"):
            await Connection.open("127.0.0.1", port)


async def test_a_web_server_is_not_taken_for_a_broker() -> None:
    async def answer(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    async with raw_server(answer) as port:
        with pytest.raises(ConnectionFailed, match="limit is"):
            await Connection.open("127.0.0.1", port)


async def test_an_answer_that_nobody_asked_for_ends_the_connection() -> None:
    async def answer(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write((4).to_bytes(4, "big") + (999).to_bytes(4, "big"))

    async with raw_server(answer) as port:
        with pytest.raises(ConnectionFailed, match="without a request"):
            await Connection.open("127.0.0.1", port)


async def test_an_answer_cut_short_is_an_error_and_not_a_crash() -> None:
    async def answer(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write((7).to_bytes(4, "big") + (1).to_bytes(4, "big") + b"\0\0\5")

    async with raw_server(answer) as port:
        with pytest.raises(ConnectionFailed, match="sent an invalid"):
            await Connection.open("127.0.0.1", port)


async def test_silence_runs_into_the_request_timeout() -> None:
    async def answer(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async with raw_server(answer) as port:
        with pytest.raises(RequestTimedOut, match="API_VERSIONS"):
            await Connection.open("127.0.0.1", port, ConnectionOptions(request_timeout_ms=30))


async def test_whoever_waits_when_the_connection_ends_is_told() -> None:
    async def answer(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
        await reader.read(1)

    async with raw_server(answer) as port:
        with pytest.raises(ConnectionFailed):
            await Connection.open("127.0.0.1", port)


async def test_a_host_name_that_cannot_be_one_is_an_unreachable_broker() -> None:
    with pytest.raises(ConnectionFailed, match="the host name is invalid"):
        await Connection.open("a..b", 9092)
