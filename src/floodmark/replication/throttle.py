"""CORE: limits how fast throttled replicas are copied (KIP-73).

A topic's settings name the throttled replicas, the broker's dynamic settings the bytes per second.
All traffic of a throttled replica is measured, but only out-of-sync followers are held back. So a
throttle never removes a replica from the in-sync set. The replica manager holds back what a leader
sends, the fetchers what a follower requests, and the log folder mover what it copies.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Final

ALL: Final = "*"
UNLIMITED: Final = (1 << 63) - 1

_SHORTEST_WAIT_MS: Final = 20.0


def is_throttled(replicas: Iterable[str], partition: int, broker_id: int) -> bool:
    """Whether a topic's list, such as `0:101,1:102` or `*`, names this replica."""
    names = (ALL, f"{partition}:{broker_id}")
    return any(entry.strip() in names for entry in replicas)


class ReplicationQuota:
    """Bytes over the last `windows` windows, compared with a limit.

    Like Kafka's: the rate is the count divided by the time since the oldest window began. The first
    window counts in full, so a single large batch at the start does not exceed any limit.
    """

    __slots__ = ("_counted", "_in_windows", "limit_bytes", "total_bytes", "window_ms", "windows")

    def __init__(self, windows: int = 11, window_ms: int = 1000) -> None:
        self.windows = windows
        self.window_ms = window_ms
        self.limit_bytes = UNLIMITED
        """Per second. 0 stops all copying."""
        self.total_bytes = 0
        self._counted: deque[tuple[float, int]] = deque()
        self._in_windows = 0

    def configure(self, limit_bytes: int, windows: int, window_ms: int) -> None:
        self.limit_bytes = limit_bytes
        self.windows = windows
        self.window_ms = window_ms

    @property
    def is_limited(self) -> bool:
        return self.limit_bytes < UNLIMITED

    def record(self, size_bytes: int, now_ms: float) -> None:
        self.total_bytes += size_bytes
        self._forget_old(now_ms)
        if self._counted and now_ms - self._counted[-1][0] < self.window_ms:
            began_ms, counted = self._counted[-1]
            self._counted[-1] = (began_ms, counted + size_bytes)
        else:
            self._counted.append((now_ms, size_bytes))
        self._in_windows += size_bytes

    def rate(self, now_ms: float) -> float:
        """Bytes per second."""
        self._forget_old(now_ms)
        if not self._counted:
            return 0.0
        elapsed_ms = max(now_ms - self._counted[0][0], self.window_ms)
        return self._in_windows * 1000 / elapsed_ms

    def is_exceeded(self, now_ms: float) -> bool:
        if not self.is_limited:
            return False
        return self.limit_bytes == 0 or self.rate(now_ms) > self.limit_bytes

    def wait_ms(self, now_ms: float) -> float:
        """How long until the rate has fallen to the limit, if nothing is copied meanwhile."""
        if not self.is_exceeded(now_ms):
            return 0.0
        if self.limit_bytes == 0:
            return float(self.window_ms)
        needed_ms = self._in_windows * 1000 / self.limit_bytes
        wait_ms = needed_ms - (now_ms - self._counted[0][0])
        return min(max(wait_ms, _SHORTEST_WAIT_MS), float(self.window_ms))

    def _forget_old(self, now_ms: float) -> None:
        oldest_ms = now_ms - self.windows * self.window_ms
        while self._counted and self._counted[0][0] < oldest_ms:
            self._in_windows -= self._counted.popleft()[1]


class ReplicationQuotas:
    """The broker's quotas: for sending as a leader, fetching as a follower, and moving logs."""

    __slots__ = ("alter_log_dirs", "follower", "leader")

    def __init__(self) -> None:
        self.leader = ReplicationQuota()
        self.follower = ReplicationQuota()
        self.alter_log_dirs = ReplicationQuota()

    def configure(self, get_int: Callable[[str], int]) -> None:
        """`get_int` reads the broker's current settings."""
        for quota, rate, prefix in (
            (self.leader, "leader.replication.throttled.rate", ""),
            (self.follower, "follower.replication.throttled.rate", ""),
            (
                self.alter_log_dirs,
                "replica.alter.log.dirs.io.max.bytes.per.second",
                "alter.log.dirs.",
            ),
        ):
            windows = get_int(f"{prefix}replication.quota.window.num")
            window_s = get_int(f"{prefix}replication.quota.window.size.seconds")
            quota.configure(get_int(rate), windows, window_s * 1000)
