"""Arms faults in a broker's process, as `cluster.faults[1]`.

PUBLIC. Has the same calls as `floodmark.testing.Faults`, which runs in the process itself.
"""

from __future__ import annotations

from floodmark.testing.cluster.process import BrokerProcess
from floodmark.testing.faults import StruckCounts
from floodmark.wire.api_keys import ApiKey
from floodmark.wire.errors import ErrorCode


class RemoteFaults:
    """Faults belong to a process: a restarted broker has none."""

    def __init__(self, process: BrokerProcess) -> None:
        self._process = process

    def fail(self, api: ApiKey | str, error: ErrorCode | int | str, *, times: int = 1) -> None:
        """Fails the next requests with this error code, without handling them."""
        self._process.order("fail", _plain(api), _plain(error), times=times)

    def delay(self, api: ApiKey | str, delay_s: float, *, times: int = 1) -> None:
        """Delays the handling of the next requests."""
        self._process.order("delay", _plain(api), delay_s, times=times)

    def drop(self, api: ApiKey | str, *, times: int = 1, handled: bool = False) -> None:
        """Drops the connection on the next requests: before, or with `handled` after handling."""
        self._process.order("drop", _plain(api), times=times, handled=handled)

    def clear(self) -> None:
        """Disarms pending faults."""
        self._process.order("clear")

    def reset(self) -> None:
        """Disarms pending faults and resets the counts."""
        self._process.order("reset")

    @property
    def struck(self) -> StruckCounts:
        """How many requests of each API met a fault: `faults.struck["PRODUCE"]`."""
        counts = StruckCounts()
        for api, count in self._process.order("struck").items():
            for _ in range(count):
                counts.count(ApiKey[api])
        return counts


def _plain(name: ApiKey | ErrorCode | int | str) -> int | str:
    return name if isinstance(name, str) else int(name)
