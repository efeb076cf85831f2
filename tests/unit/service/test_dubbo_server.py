"""The Dubbo protocol's server: results, typed errors, and peers that misbehave."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from concurrent.futures import CancelledError
from typing import Any

import pytest
import pytest_asyncio
from hypothesis import given, settings
from hypothesis import strategies as st

from floodmark.service.api import settings_of
from floodmark.service.consumer import Consumer
from floodmark.service.dubbo.client import DubboClient
from floodmark.service.dubbo.frames import (
    HEADER,
    HEADER_BYTES,
    HESSIAN2,
    MAGIC,
    REQUEST,
    TWO_WAY,
    FrameError,
    Frames,
    Status,
    frame,
    heartbeat,
)
from floodmark.service.dubbo.requests import Requests, read_prefix, takes_attachments
from floodmark.service.dubbo.responses import Outcome
from floodmark.service.dubbo.server import DubboServer
from floodmark.service.errors import RemoteError, RpcError
from floodmark.service.generic import generalized
from floodmark.service.hessian import Encoder, HessianError, JavaObject, dumps
from floodmark.service.interface import interface_of, method
from floodmark.service.invoker import Invoker
from floodmark.service.provider import Services
from floodmark.service.url import URL
from kit.sample_service import INTERFACE, ORDER, Sample

SAMPLE = interface_of(Sample, INTERFACE)


class Peer:
    """A server with the sample service, and a consumer that is connected to it."""

    def __init__(self, server: DubboServer, sample: Sample, client: DubboClient) -> None:
        self.server = server
        self.sample = sample
        self.client = client

    async def outcome(
        self, name: str, *arguments: Any, path: str = INTERFACE, **attachments: str
    ) -> Outcome:
        method = SAMPLE.methods.get(name)
        kinds = [item.type for item in method.parameters] if method else []
        writers = [kind.write for kind in kinds] + [Encoder.write] * len(arguments)
        descriptor = method.descriptor if method and len(arguments) == len(kinds) else ""
        return await self.client.call(
            path,
            attachments.get("version", ""),
            name,
            descriptor or "Ljava/lang/Object;" * len(arguments),
            list(zip(writers, arguments, strict=False)),
            attachments,
            SAMPLE.classes,
            5.0,
        )

    async def value(self, name: str, *arguments: Any, **attachments: str) -> Any:
        outcome = await self.outcome(name, *arguments, **attachments)
        assert outcome.thrown is None, outcome.thrown
        return outcome.value


@pytest_asyncio.fixture
async def peer() -> AsyncIterator[Peer]:
    async with peer_of({}) as found:
        yield found


class peer_of:
    def __init__(self, parameters: Mapping[str, str], heartbeat_seconds: float = 60) -> None:
        self._parameters = parameters
        self._heartbeat_seconds = heartbeat_seconds

    async def __aenter__(self) -> Peer:
        self.server = DubboServer("127.0.0.1", 0, heartbeat_seconds=self._heartbeat_seconds)
        await self.server.start()
        sample = Sample()
        url = URL("dubbo", "127.0.0.1", self.server.port, INTERFACE, self._parameters)
        self.server.add(Invoker(sample, SAMPLE, url))
        self.client = await DubboClient.connect("127.0.0.1", self.server.port)
        return Peer(self.server, sample, self.client)

    async def __aexit__(self, *_: object) -> None:
        self.client.close()
        await self.server.stop()


async def test_methods_run_inline_on_the_loop_and_in_threads(peer: Peer) -> None:
    assert await peer.value("hello", "x") == "hello x"
    assert await peer.value("helloAsync", "x") == "hello x"
    assert await peer.value("helloInThread", "x") == "hello x from floodmark-service"
    assert await peer.value("hello_in_thread", "x") == "hello x from floodmark-service"


async def test_values_cross_in_both_directions(peer: Peer) -> None:
    assert await peer.value("same", ORDER) == ORDER
    assert await peer.value("widths", 1, 2, 3, 4) == 10
    assert await peer.value("text", "😀" * 50_000) == "😀" * 50_000
    assert await peer.value("nothing", None) is None
    ring = await peer.value("ring", 3)
    assert ring.next.next.next is ring and ring.others[0] is ring


async def test_calls_overtake_each_other(peer: Peer) -> None:
    slow = asyncio.ensure_future(peer.value("wait", "late"))
    assert await peer.value("hello", "x") == "hello x"
    assert not slow.done()
    peer.sample.may_go_on.set()
    assert await slow == "late"


async def test_exceptions_reach_the_consumer_with_their_class(peer: Peer) -> None:
    thrown = (await peer.outcome("find", 5)).thrown
    assert str(thrown.order_id) == "5"
    thrown = (await peer.outcome("fails", "value")).thrown
    assert thrown.java_class == "java.lang.IllegalArgumentException"
    assert thrown.fields["detailMessage"] == "not a good value"
    thrown = (await peer.outcome("fails", "other")).thrown
    assert thrown.fields["detailMessage"] == "RuntimeError: it broke"


@pytest.mark.parametrize(
    ("name", "arguments", "text"),
    [
        ("unheardOf", (1,), "Service not found"),
        ("hello", (), "takes 1 arguments"),
        ("hello", ("a", "b"), "takes 1 arguments"),
        ("sorted", ("no list",), "argument 0 of sorted: expected a list"),
        ("same", (JavaObject("dev.Other", {}),), r"argument 0 of same: expected Order"),
        ("unwritable", (), "Failed to send response of unwritable"),
    ],
)
async def test_bad_calls_get_an_error_and_the_connection_goes_on(
    peer: Peer, name: str, arguments: tuple[Any, ...], text: str
) -> None:
    with pytest.raises(RpcError, match=text):
        if name == "sorted":
            writers = [(Encoder.write, arguments[0])]
            await peer.client.call(
                INTERFACE, "", name, "Ljava/util/List;", writers, {}, SAMPLE.classes, 5
            )
        elif name == "same":
            writers = [(Encoder.write, arguments[0])]
            await peer.client.call(INTERFACE, "", name, "Lx;", writers, {}, SAMPLE.classes, 5)
        else:
            await peer.outcome(name, *arguments)
    assert await peer.value("hello", "x") == "hello x"


async def test_an_unknown_service_is_a_service_error(peer: Peer) -> None:
    with pytest.raises(RpcError, match="Not found exported service: dev\\.Unknown"):
        await peer.outcome("hello", "x", path="dev.Unknown")
    with pytest.raises(RpcError, match="group 'other'"):
        await peer.outcome("hello", "x", group="other")


async def test_echo_and_generic_calls(peer: Peer) -> None:
    assert await peer.value("$echo", "ok") == "ok"
    assert await peer.value("$invoke", "hello", ["x"], ["g"], generic="true") == "hello g"
    order = await peer.value("$invoke", "find", ["long"], [ORDER.id], generic="true")
    assert order["class"] == "dev.floodmark.sample.Order"
    assert (order["status"], order["customer"]["name"]) == ("PAID", "Žofie 😀")
    again = await peer.value("$invoke", "same", ["x"], [order], generic="true")
    assert again == order


async def test_a_generic_result_may_lead_back_to_itself(peer: Peer) -> None:
    """Read here by hand, because our own reader takes no map that contains itself."""
    made = generalized(peer.sample.ring(3), SAMPLE.classes)
    assert made["next"]["next"]["next"] is made and made["others"][0] is made
    assert made["class"] == "dev.floodmark.sample.Node"
    assert dumps(made).count(b"dev.floodmark.sample.Node") == 3


@pytest.mark.parametrize("name", ["group", "version", "token", "generic"])
async def test_attachments_that_decide_are_texts(peer: Peer, name: str) -> None:
    wrong: Any = {name: ["x"]}
    with pytest.raises(RpcError, match=f"the attachment {name} is not a text"):
        await peer.client.call(
            INTERFACE,
            "",
            "hello",
            "Ljava/lang/String;",
            [(Encoder.write, "x")],
            wrong,
            SAMPLE.classes,
            5,
        )
    assert await peer.value("hello", "x") == "hello x"


async def test_a_call_that_outlasts_its_timeout_is_told_of_and_answered(
    caplog: pytest.LogCaptureFixture,
) -> None:
    timeouts = {"pause.timeout": "10", "timeout": "60000"}
    async with peer_of({**timeouts, "interface": INTERFACE}) as peer:
        assert await peer.value("helloAsync", "x") == "hello x"
        assert not caplog.messages
        assert await peer.value("pause", 50) == "slept"
        assert f"{INTERFACE}.pause took" in caplog.text and "timeout is 10 ms" in caplog.text


async def test_a_method_that_was_cancelled_is_answered(peer: Peer) -> None:
    async def cancelled(_milliseconds: int) -> str:
        raise asyncio.CancelledError

    invoker = peer.server.find(INTERFACE, "", "")
    assert invoker is not None
    invoker.handles["pause"].function = cancelled
    thrown = (await peer.outcome("pause", 1)).thrown
    assert thrown.fields["detailMessage"].startswith("CancelledError")


async def test_a_generic_call_that_fails_names_the_exception(peer: Peer) -> None:
    thrown = (await peer.outcome("$invoke", "find", ["long"], [1], generic="true")).thrown
    assert thrown.java_class == "org.apache.dubbo.rpc.service.GenericException"
    assert thrown.fields["exceptionClass"] == "dev.floodmark.sample.NoSuchOrder"


async def test_without_the_token_a_call_is_refused() -> None:
    async with peer_of({"token": "secret"}) as peer:
        thrown = (await peer.outcome("hello", "x")).thrown
        assert thrown.java_class == "org.apache.dubbo.rpc.RpcException"
        assert "Invalid token" in thrown.fields["detailMessage"]
        assert await peer.value("hello", "x", token="secret") == "hello x"


async def test_more_calls_than_executes_are_refused() -> None:
    async with peer_of({"wait.executes": "1"}) as peer:
        first = asyncio.ensure_future(peer.value("wait", "a"))
        await peer.value("hello", "x")
        thrown = (await peer.outcome("wait", "b")).thrown
        assert "limited" in thrown.fields["detailMessage"]
        peer.sample.may_go_on.set()
        assert await first == "a"
        assert await peer.value("wait", "c") == "c"


class Endings:
    def __init__(self, error: BaseException) -> None:
        self._error = error

    def fails(self) -> str:
        raise self._error

    @method(inline=True)
    def hello(self) -> str:
        return "hello"


@pytest.mark.parametrize(
    "error", [StopIteration("no more"), CancelledError("no more"), SystemExit("no more")]
)
@pytest.mark.parametrize("protocol", ["dubbo", "injvm"])
async def test_whatever_ends_a_method_in_a_thread_reaches_the_consumer(
    error: BaseException, protocol: str
) -> None:
    services = Services()
    export = await services.export(Endings(error), settings_of(Endings, interface="dev.E", port=-1))
    local = services if protocol == "injvm" else None
    try:
        async with Consumer(services=local) as consumer:
            url = "" if local else f"dubbo://127.0.0.1:{export.urls[0].port}"
            endings = await consumer.refer(Endings, "dev.E", url=url, timeout_ms=5_000, retries=0)
            text = f"the method raised {type(error).__name__}: no more"
            with pytest.raises((RuntimeError, RemoteError), match=text):
                await endings.fails()
            assert await endings.hello() == "hello"
    finally:
        await services.close()


async def test_more_calls_than_threads_are_refused(peer: Peer) -> None:
    peer.server.max_threads = 1
    first = asyncio.ensure_future(peer.value("wait", "a"))
    await peer.value("hello", "x")
    with pytest.raises(RpcError, match="thread pool is exhausted"):
        await peer.outcome("wait", "b")
    peer.sample.may_go_on.set()
    assert await first == "a"


async def test_attachments_travel_both_ways(peer: Peer) -> None:
    outcome = await peer.outcome("attachment", "trace", trace="t-1")
    assert outcome.value == "t-1"
    assert outcome.attachments["answered-by"] == "python"


async def test_one_way_calls_get_no_answer(peer: Peer) -> None:
    method = SAMPLE.methods["recordOneWay"]
    writers = [(method.parameters[0].type.write, "seen")]
    await peer.client.call(
        INTERFACE, "", method.name, method.descriptor, writers, {}, SAMPLE.classes, None
    )
    await peer.value("hello", "x")
    assert peer.sample.one_way == ["seen"]


async def test_stop_tells_consumers_and_finishes_calls() -> None:
    async with peer_of({}) as peer:
        call = asyncio.ensure_future(peer.value("wait", "finished"))
        await peer.value("hello", "x")
        changed = asyncio.Event()
        peer.client.on_change = changed.set
        stopping = asyncio.ensure_future(peer.server.stop())
        await changed.wait()
        assert peer.client.is_readonly and not stopping.done()
        peer.sample.may_go_on.set()
        assert await call == "finished"
        changed.clear()
        await stopping
        await changed.wait()
        assert not peer.client.is_open


async def test_heartbeats_are_answered_and_sent() -> None:
    async with peer_of({}, heartbeat_seconds=0.06) as peer:
        reader, writer = await asyncio.open_connection("127.0.0.1", peer.server.port)
        writer.write(heartbeat(9))
        magic, flags, status, request_id, size = HEADER.unpack(await reader.readexactly(16))
        assert (magic, flags, status, request_id) == (MAGIC, 0x22, 20, 9)
        assert await reader.readexactly(size) == b"N"
        # Silent now: the server asks, and gives up when it hears nothing.
        _, flags, _, _, _ = HEADER.unpack(await reader.readexactly(16))
        assert flags == 0xE2
        await reader.read()
        writer.close()


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        HEADER.pack(MAGIC, 0xC2, 0, 1, 8 * 1024 * 1024 + 1),
        HEADER.pack(MAGIC, 0xC2, 0, 1, 0xFFFFFFFF),
        b"\x16\x03\x01",  # TLS
    ],
)
async def test_foreign_and_oversized_frames_end_only_their_connection(
    peer: Peer, data: bytes
) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", peer.server.port)
    writer.write(data)
    assert await reader.read() == b""
    writer.close()
    assert await peer.value("hello", "x") == "hello x"


async def test_malformed_requests_get_bad_request(peer: Peer) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", peer.server.port)
    for body in (b"", b"\x05", b"\xff" * 50, b"\x01a\x01b\x01c\x01d\x01I"):
        writer.write(frame(REQUEST | TWO_WAY | HESSIAN2, 0, 4, body))
        _, _, status, request_id, size = HEADER.unpack(await reader.readexactly(16))
        assert (status, request_id) == (Status.BAD_REQUEST, 4)
        await reader.readexactly(size)
    writer.write(frame(REQUEST | TWO_WAY | 6, 0, 5, b"{}"))  # fastjson
    _, _, status, _, size = HEADER.unpack(await reader.readexactly(16))
    assert status == Status.BAD_REQUEST
    assert b"serialization 6" in await reader.readexactly(size)
    writer.close()


async def test_random_bodies_do_not_hurt_the_server(peer: Peer) -> None:
    bodies: list[bytes] = []

    @settings(max_examples=200)
    @given(st.binary(max_size=60))
    def collect(body: bytes) -> None:
        bodies.append(body)

    collect()
    good = read_prefix_bytes()
    reader, writer = await asyncio.open_connection("127.0.0.1", peer.server.port)
    for body in bodies:
        writer.write(frame(REQUEST | TWO_WAY | HESSIAN2, 0, 1, good + body))
        header = HEADER.unpack(await reader.readexactly(HEADER_BYTES))
        await reader.readexactly(header[4])
    writer.close()
    assert await peer.value("hello", "x") == "hello x"


def read_prefix_bytes() -> bytes:
    encoder = Encoder()
    for text in ("2.0.2", INTERFACE, "", "same", "Ldev/floodmark/sample/Order;"):
        encoder.write_text(text)
    return encoder.take()


def test_frames_come_whole_however_they_are_cut() -> None:
    stream = frame(0xC2, 0, 1, b"one") + frame(0xC2, 0, 2, b"") + frame(0x02, 20, 3, b"x" * 5000)
    for step in (1, 3, 16, 17, 1000, len(stream)):
        frames, found = Frames(), []
        for start in range(0, len(stream), step):
            found += frames.feed(stream[start : start + step])
        assert [(item[2], len(item[3])) for item in found] == [(1, 3), (2, 0), (3, 5000)]


def test_a_wrong_first_byte_is_enough() -> None:
    with pytest.raises(FrameError):
        Frames().feed(b"G")


def test_repeated_requests_skip_decoding_and_mean_the_same() -> None:
    requests = Requests(lambda _path: SAMPLE.classes)
    encoder = Encoder()
    for text in ("2.0.2", INTERFACE, "", "text", "Ljava/lang/String;"):
        encoder.write_text(text)
    prefix = encoder.take()
    for text, attachments in (("a", {"k": "v"}), ("b", {"k": "v"}), ("c", {"k": "w"}), ("d", {})):
        one = Encoder()
        one.write(text)
        one.write(attachments)
        request = requests.read(prefix + one.take())
        assert (request.arguments, request.attachments) == ([text], attachments)


def test_a_request_names_255_types_at_most() -> None:
    encoder = Encoder()
    for text in ("2.0.2", "p", "", "m", "I" * 256):
        encoder.write_text(text)
    with pytest.raises(HessianError, match="256 arguments"):
        read_prefix(encoder.take())


@pytest.mark.parametrize(
    ("version", "takes"),
    [
        ("2.0.2", True),
        ("2.0.1", False),
        ("2.0.99", True),
        ("2.7.1", False),
        ("", False),
        ("x", False),
        ("2.0." + "9" * 5_000, False),
    ],
)
def test_only_some_versions_take_attachments(version: str, takes: bool) -> None:
    assert takes_attachments(version) is takes
