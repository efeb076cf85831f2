"""The public keys (JSON web key set) that verify OAUTHBEARER tokens, from a file or over HTTP.

Created by `broker.sasl_listeners`, one per URL. Reads the keys at the start and then periodically,
and when a token names a key that is not among them. On failure it keeps the known keys and retries
with increasing delays.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import math
from typing import Any

from floodmark.occurrences import Occurrences, repeated

logger = logging.getLogger(__name__)

FETCH_TIMEOUT_S = 10
MAX_DOCUMENT_BYTES = 1 << 20
EXPEDITED_INTERVAL_S = 10.0
SCHEMES = ("file:", "https:", "http:")


class TokenKeys:
    def __init__(self, url: str, *, refresh_ms: int, backoff_ms: int, max_backoff_ms: int) -> None:
        self._url = url
        self._refresh_ms = refresh_ms
        self._backoff_ms = backoff_ms
        self._max_backoff_ms = max_backoff_ms
        self._failures = Occurrences()
        self._task: asyncio.Task[None] | None = None
        self._wanted = asyncio.Event()
        self._read_at_s = -math.inf
        # joserfc's KeySet, or None before the first success.
        self.key_set: Any = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._follow(), name="token-keys")

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def refresh_soon(self) -> None:
        """A token names a key that we do not know: its issuer may have a new one.

        Anybody can name a key, so this happens only every EXPEDITED_INTERVAL_S.
        """
        if asyncio.get_running_loop().time() - self._read_at_s >= EXPEDITED_INTERVAL_S:
            self._wanted.set()

    async def _follow(self) -> None:
        backoff_ms = self._backoff_ms
        while True:
            self._wanted.clear()
            self._read_at_s = asyncio.get_running_loop().time()
            try:
                self.key_set = await asyncio.to_thread(read_keys, self._url)
            except (OSError, ValueError) as problem:
                times = self._failures.worth_telling(str(problem))
                if times:
                    logger.error(
                        "could not read the token keys from %s%s: %s",
                        self._url,
                        repeated(times),
                        problem,
                    )
                await asyncio.sleep(backoff_ms / 1000)
                backoff_ms = min(backoff_ms * 2, self._max_backoff_ms)
            else:
                backoff_ms = self._backoff_ms
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._wanted.wait(), self._refresh_ms / 1000)


def read_keys(url: str) -> Any:
    """Raises OSError if there is no response, ValueError if it is not a key set."""
    # Both imports are slow, and few brokers verify tokens.
    from urllib.request import urlopen

    from joserfc.jwk import KeySet

    if not url.lower().startswith(SCHEMES):
        raise ValueError(f"the URL must start with one of {', '.join(SCHEMES)}")
    with urlopen(url, timeout=FETCH_TIMEOUT_S) as answer:
        document = answer.read(MAX_DOCUMENT_BYTES + 1)
    if len(document) > MAX_DOCUMENT_BYTES:
        raise ValueError(f"the response is larger than {MAX_DOCUMENT_BYTES} bytes")
    try:
        return KeySet.import_key_set(json.loads(document))
    except (KeyError, TypeError, AttributeError) as problem:
        raise ValueError(f"the response is not a JSON web key set: {problem!r}") from problem
