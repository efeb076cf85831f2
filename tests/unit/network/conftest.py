"""Servers in memory that close with their test."""

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from kit.connections import MemoryServer


@pytest.fixture
async def serve() -> AsyncIterator[Callable[..., MemoryServer]]:
    servers: list[MemoryServer] = []

    def start(*arguments: Any, **settings: Any) -> MemoryServer:
        servers.append(MemoryServer(*arguments, **settings))
        return servers[-1]

    yield start
    for server in servers:
        await server.close()
