"""A transaction coordinator with logs in memory, closed after its test."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from kit.transactions import TransactionBench


@pytest.fixture
async def bench() -> AsyncIterator[TransactionBench]:
    bench = TransactionBench()
    yield bench
    bench.close()
    # Lets cancelled tasks end.
    await asyncio.sleep(0)
