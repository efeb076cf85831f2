"""Arms faults in the process of a broker. `cluster.faults[1]` is one of these.

PUBLIC. The same calls as `floodmark.testing.Faults`, which the process itself has.
"""

from __future__ import annotations

from floodmark.testing.cluster.process import BrokerProcess
from floodmark.testing.faults import StruckCounts
from floodmark.wire.api_keys import ApiKey
from floodmark.wire.errors import ErrorCode


class RemoteFaults:
    """Faults belong to a process: a broker that is started again has none."""

    def __init__(self, process: BrokerProcess) -> None:
        self._process = process

    def fail(self, api: ApiKey | str, error: ErrorCode | int | str, *, times: int = 1) -> None:
        """The next requests are not handled but answered with this error code."""
        self._process.order("fail", _plain(api), _plain(error), times=times)

    def delay(self, api: ApiKey | str, delay_s: float, *, times: int = 1) -> None:
        """The next requests are handled only after a while."""
        self._process.order("delay", _plain(api), delay_s, times=times)

    def drop(self, api: ApiKey | str, *, times: int = 1, handled: bool = False) -> None:
        """The next requests end their connection: unseen, or `handled` with the answer lost."""
        self._process.order("drop", _plain(api), times=times, handled=handled)

    def clear(self) -> None:
        """Disarms faults that have not struck yet."""
        self._process.order("clear")

    def reset(self) -> None:
        """Disarms faults that have not struck yet, and sets the counts to zero."""
        self._process.order("reset")

    @property
    def struck(self) -> StruckCounts:
        """How many requests of each API have met a fault: `faults.struck["PRODUCE"]`."""
        counts = StruckCounts()
        for api, count in self._process.order("struck").items():
            for _ in range(count):
                counts.count(ApiKey[api])
        return counts


def _plain(name: ApiKey | ErrorCode | int | str) -> int | str:
    return name if isinstance(name, str) else int(name)
