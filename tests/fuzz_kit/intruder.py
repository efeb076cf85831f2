"""Tries to get in without a password: SASL steps that are skipped, repeated, broken, or too large.

Every attempt ends with a request for metadata. Whatever came before it, it must not be answered.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
from collections.abc import Awaitable, Callable
from random import Random

from floodmark.security.errors import AuthenticationFailed
from floodmark.security.scram import ScramClient
from floodmark.wire.api_keys import ApiKey
from floodmark.wire.compiler import encode
from floodmark.wire.headers import RequestHeader, encode_request_header
from floodmark.wire.messages.api_versions import ApiVersionsRequest
from floodmark.wire.messages.metadata import MetadataRequest
from floodmark.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from floodmark.wire.messages.sasl_handshake import SaslHandshakeRequest
from fuzz_kit.gunner import Door, Streams
from fuzz_kit.locked_broker import ALICE, MECHANISMS, PASSWORDS, ask
from fuzz_kit.raw_client import answer_of, request_bytes

STEP_TIMEOUT_S = 5.0
MOST_STEPS = 6
LARGEST_TOKEN = 524_288 - 100
"""Just under sasl.server.max.receive.size."""
HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
GONE = (asyncio.IncompleteReadError, ConnectionError, TimeoutError)


class Intruder:
    def __init__(self, random: Random, door: Door, replay: list[bytes]) -> None:
        """`replay` are the tokens of a SCRAM-SHA-256 exchange that succeeded once."""
        self._random = random
        self._door = door
        self._replay = replay
        self._steps: list[Callable[[Streams], Awaitable[None]]] = [
            self._handshake,
            self._first_token,
            self._first_token,
            self._next_token,
            self._next_token,
            self._repeat,
            self._broken,
            self._garbage,
            self._large,
            self._replayed,
            self._ask_for_versions,
        ]
        self._forget()
        self.got_in: list[list[str]] = []
        self.reached = 0
        """How often a token was answered by another one: so deep did the attempts get."""

    def _forget(self) -> None:
        self._mechanism = "PLAIN"
        self._is_raw = False
        self._scram: ScramClient | None = None
        self._challenge = b""
        self._last = b""
        self._replayed_so_far = 0
        self._told: list[str] = []

    async def attempt(self) -> None:
        self._forget()
        streams = await self._door()
        try:
            async with asyncio.timeout(STEP_TIMEOUT_S * 2):
                if self._random.random() < 0.9:
                    await self._handshake(streams)
                for _ in range(self._random.randrange(MOST_STEPS)):
                    await self._random.choice(self._steps)(streams)
                if await self._is_in(streams):
                    self.got_in.append(self._told)
        except GONE:
            pass
        finally:
            streams[1].transport.abort()
            with contextlib.suppress(ConnectionError):
                await streams[1].wait_closed()

    async def _is_in(self, streams: Streams) -> bool:
        """An answer to bare tokens is not one to this request: it has another correlation id."""
        correlation_id = self._random.getrandbits(31)
        header = encode_request_header(RequestHeader(ApiKey.METADATA, 9, correlation_id, "m"))
        answer = await ask(streams, header + encode(MetadataRequest(), 9))
        return answer[:4] == correlation_id.to_bytes(4, "big")

    async def _handshake(self, streams: Streams) -> None:
        self._mechanism = self._random.choice((*MECHANISMS * 4, "GSSAPI", "", "plain", "\0", "x"))
        version = self._random.choice((0, 1, 1, 1))
        request = SaslHandshakeRequest(mechanism=self._mechanism)
        self._told.append(f"handshake v{version} {self._mechanism!r}")
        await ask(streams, request_bytes(request, version))
        self._is_raw = version == 0

    async def _first_token(self, streams: Streams) -> None:
        """Well made, with a wrong password."""
        if self._mechanism in HASHES:
            name = self._random.choice((ALICE, "nobody", "a=2Cb", "x" * 2000))
            nonce = f"{self._random.getrandbits(120):x}"
            self._scram = ScramClient(HASHES[self._mechanism], name, "wrong", nonce)
            await self._send(streams, self._scram.first())
        elif self._mechanism == "OAUTHBEARER":
            await self._send(streams, self._expired_token())
        else:
            name = self._random.choice((ALICE, "", "nobody", "admin"))
            whose = self._random.choice(("", name, "admin"))
            password = self._random.choice(("", "wrong", "alice-secret "))
            await self._send(streams, f"{whose}\0{name}\0{password}".encode())

    async def _next_token(self, streams: Streams) -> None:
        """The right answer to the last challenge, but for the password."""
        token = b"\x01"
        if self._scram is not None:
            with contextlib.suppress(AuthenticationFailed):
                token = self._scram.step(self._challenge) or b""
        await self._send(streams, token)

    async def _repeat(self, streams: Streams) -> None:
        await self._send(streams, self._last)

    async def _broken(self, streams: Streams) -> None:
        token = bytearray(self._last or b"n,,n=alice,r=abc")
        for _ in range(self._random.choice((1, 2, 8))):
            token[self._random.randrange(len(token))] ^= 1 << self._random.randrange(8)
        await self._send(streams, bytes(token))

    async def _garbage(self, streams: Streams) -> None:
        await self._send(streams, self._random.randbytes(self._random.choice((0, 1, 40, 3000))))

    async def _large(self, streams: Streams) -> None:
        size = self._random.choice((1000, 100_000, LARGEST_TOKEN, LARGEST_TOKEN + 200))
        shape = self._random.choice((b"n,,n=%b,r=a", b"\0alice\0%b", b"n,,\1auth=Bearer %b\1\1"))
        letter = self._random.choice((b"x", b",", b"=2C", b"\0", b"a.", b"\xc3\xbc", b",a=b"))
        await self._send(streams, shape % (letter * size)[: size - len(shape)])

    async def _replayed(self, streams: Streams) -> None:
        token = self._replay[self._replayed_so_far % len(self._replay)]
        self._replayed_so_far += 1
        await self._send(streams, token)

    async def _ask_for_versions(self, streams: Streams) -> None:
        self._told.append("ApiVersions")
        await ask(streams, request_bytes(ApiVersionsRequest(), 0))

    async def _send(self, streams: Streams, token: bytes) -> None:
        assert PASSWORDS[ALICE].encode() != token.rpartition(b"\0")[2], "that would be right"
        self._last = token
        self._told.append(f"token {token[:60]!r}")
        if self._is_raw:
            self._challenge = await ask(streams, token)
        else:
            request = SaslAuthenticateRequest(auth_bytes=token)
            version = self._random.choice((0, 1, 2))
            answer = await ask(streams, request_bytes(request, version))
            self._challenge = bytes(answer_of(request, answer, version).auth_bytes)
        self.reached += bool(self._challenge)

    def _expired_token(self) -> bytes:
        claims = {"sub": ALICE, "exp": self._random.choice((0, 1_000_000, -1, 1e300, "x", None))}
        parts = [json.dumps(part).encode() for part in ({"alg": "none"}, claims)]
        token = ".".join(base64.urlsafe_b64encode(p).decode().rstrip("=") for p in parts) + "."
        return f"n,,\x01auth=Bearer {token}\x01\x01".encode()
