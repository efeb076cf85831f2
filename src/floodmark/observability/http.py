"""Serves `/metrics` for Prometheus, and `/healthz` and `/readyz` for supervisors, on a separate
port.

Called by `broker.main` if a metrics port is configured. A minimal HTTP/1.1 server on the broker's
loop: one request per connection, with tight limits on what a peer can send or keep open. Refuses
everything but a GET of a known path. Written by hand, because a web framework would use more memory
than the rest of the broker.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from importlib import import_module
from typing import NamedTuple

from floodmark.observability.collecting import collect
from floodmark.observability.health import health, is_serving
from floodmark.observability.sources import ObservedBroker, Sources

logger = logging.getLogger(__name__)

MAX_HEAD_BYTES = 8 * 1024
"""No scraper sends more."""

MAX_CONNECTIONS = 32
"""Further connections are refused: scrapes are short, so more indicates misuse."""

REQUEST_TIMEOUT_S = 10.0
"""Connections close if the peer has not sent its request or read the response by then."""

HEAD_END = b"\r\n\r\n"


class Answer(NamedTuple):
    status: HTTPStatus
    content_type: str
    body: bytes


Page = Callable[[], Awaitable[Answer]]


async def serve_metrics(
    broker: ObservedBroker, port: int, host: str | None = None
) -> MetricsServer:
    """Starts serving on this host, by default the host of the broker's own listener."""
    pages = BrokerPages(Sources(broker))
    server = MetricsServer(
        {"/metrics": pages.metrics, "/healthz": pages.health, "/readyz": pages.readiness}
    )
    await server.start(broker.config.listeners[0].host if host is None else host, port)
    logger.info("metrics at http://%s:%d/metrics, health at /healthz", server.host, server.port)
    return server


class BrokerPages:
    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self._scraping = asyncio.Lock()

    async def metrics(self) -> Answer:
        # prometheus_client takes over 0.1 s to import: in a thread, when first needed.
        metrics = await asyncio.to_thread(import_module, "floodmark.observability.metrics")
        async with self._scraping:
            readings = await collect(self._sources)
            # Rendering takes longest, and must not block the broker's loop.
            body = await asyncio.to_thread(metrics.render, readings)
        return Answer(HTTPStatus.OK, metrics.CONTENT_TYPE, body)

    async def health(self) -> Answer:
        """Whether the broker is healthy. Fails also if it serves clients but accepts no records."""
        body = await health(self._sources)
        return _json(body, is_well="reasons" not in body)

    async def readiness(self) -> Answer:
        """Whether clients are served, even if the disk is full."""
        serving = is_serving(self._sources)
        return _json({"status": "serving" if serving else "not serving"}, is_well=serving)


class MetricsServer:
    """Serves `pages` by path until closed."""

    def __init__(self, pages: dict[str, Page]) -> None:
        self._pages = pages
        self._server: asyncio.Server | None = None
        self._under_way: set[asyncio.Task[None]] = set()
        self.host = ""
        self.port = 0

    async def start(self, host: str, port: int) -> None:
        try:
            self._server = await asyncio.start_server(
                self._accept, host or None, port, limit=MAX_HEAD_BYTES
            )
        except OSError as error:
            # asyncio prepends its own text to the system's.
            number = error.errno or 0
            reason = os.strerror(number) if number > 0 else error.strerror
            text = f"cannot serve metrics on {host}:{port}: {reason}"
            raise OSError(error.errno, text) from error
        self.host, self.port = self._server.sockets[0].getsockname()[:2]

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        for task in list(self._under_way):
            task.cancel()
        await asyncio.gather(*self._under_way, return_exceptions=True)
        if self._server is not None:
            await self._server.wait_closed()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._under_way) >= MAX_CONNECTIONS:
            writer.transport.abort()
            return
        task = asyncio.get_running_loop().create_task(self._converse(reader, writer))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(REQUEST_TIMEOUT_S):
                head = await _read_head(reader)
                if head is not None:
                    await self._answer(head, writer)
        except (TimeoutError, OSError):
            writer.transport.abort()
        finally:
            writer.close()

    async def _answer(self, head: bytes, writer: asyncio.StreamWriter) -> None:
        method, answer = await self._find_answer(head)
        writer.write(_encode(answer, with_body=method != "HEAD"))
        await writer.drain()

    async def _find_answer(self, head: bytes) -> tuple[str, Answer]:
        words = head.split(b"\r\n", 1)[0].split(b" ")
        if len(words) != 3 or not words[2].startswith(b"HTTP/1."):
            return "", _refusal(HTTPStatus.BAD_REQUEST)
        method = words[0].decode("latin-1")
        page = self._pages.get(words[1].split(b"?", 1)[0].decode("latin-1"))
        if page is None:
            return method, _refusal(HTTPStatus.NOT_FOUND)
        if method not in ("GET", "HEAD"):
            return method, _refusal(HTTPStatus.METHOD_NOT_ALLOWED)
        return method, await page()


async def _read_head(reader: asyncio.StreamReader) -> bytes | None:
    """Reads the request up to the empty line. The header fields are ignored."""
    try:
        return await reader.readuntil(HEAD_END)
    except asyncio.IncompleteReadError:
        return None
    except asyncio.LimitOverrunError:
        return b""


def _json(body: dict[str, object], *, is_well: bool) -> Answer:
    status = HTTPStatus.OK if is_well else HTTPStatus.SERVICE_UNAVAILABLE
    return Answer(status, "application/json", json.dumps(body).encode() + b"\n")


def _refusal(status: HTTPStatus) -> Answer:
    return Answer(status, "text/plain; charset=utf-8", f"{status.phrase}\n".encode())


def _encode(answer: Answer, *, with_body: bool) -> bytes:
    head = (
        f"HTTP/1.1 {answer.status.value} {answer.status.phrase}\r\n"
        f"Content-Type: {answer.content_type}\r\n"
        f"Content-Length: {len(answer.body)}\r\n"
        "Connection: close\r\n\r\n"
    )
    return head.encode() + (answer.body if with_body else b"")
