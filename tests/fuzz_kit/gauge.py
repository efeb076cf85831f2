"""Measures what one small request costs a broker: stalls of its loop, and memory."""

from __future__ import annotations

from typing import Any

from floodmark.wire.messages.api_versions import ApiVersionsRequest
from fuzz_kit.raw_client import TIMEOUT_S, RawClient
from kit.watched_broker import WatchedBroker

MOST_BYTES = 4096
LONGEST_STALL_S = 0.1
MOST_GROWTH_BYTES = 50_000_000


class Gauge:
    """Sends what is to be measured and collects what was too much."""

    def __init__(self, watched: WatchedBroker, timeout_s: float = TIMEOUT_S) -> None:
        self._watched = watched
        self.client = RawClient(watched.broker.bootstrap, timeout_s)
        self.too_much: list[str] = []
        self.worst_s, self.worst_bytes = (0.0, ""), (0, "")

    def ask(self, what: str, message: Any, version: int) -> Any:
        self._watched.reset()
        try:
            return self.client.ask(message, version)
        finally:
            # The turn that has sent the answer is measured when the next one begins.
            self.client.ask(ApiVersionsRequest(), 0)
            self._check(what)

    def fire(self, what: str, frame: bytes) -> None:
        """For what may be answered, or end the connection, or wait."""
        self._watched.reset()
        with RawClient(self._watched.broker.bootstrap) as client:
            client.send_frame(frame)
            client.settle()
        self.client.ask(ApiVersionsRequest(), 0)
        self._check(what)

    def _check(self, what: str) -> None:
        stall_s, growth_bytes = self._watched.longest_stall_s(), self._watched.growth_bytes()
        self.worst_s = max(self.worst_s, (stall_s, what))
        self.worst_bytes = max(self.worst_bytes, (growth_bytes, what))
        if stall_s > LONGEST_STALL_S or growth_bytes > MOST_GROWTH_BYTES:
            self.too_much.append(f"{what}: {stall_s * 1000:.0f} ms, {growth_bytes / 1e6:.0f} MB")

    def finish(self) -> None:
        self.client.__exit__(None, None, None)
        (stall_s, slowest), (growth_bytes, largest) = self.worst_s, self.worst_bytes
        print(
            f"at most {stall_s * 1000:.0f} ms ({slowest}), {growth_bytes / 1e6:.1f} MB ({largest})"
        )
        assert not self.too_much, "\n".join(self.too_much)
