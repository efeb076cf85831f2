"""Keeps kazoo's log short while ZooKeeper is away: it reports every attempt to connect.

Used by `client.py`. With three servers that are down, that is a dozen lines a second. The first,
second, fourth, eighth... line of a kind is let through, and all are again after a connection.
"""

from __future__ import annotations

import logging

from floodmark.occurrences import Occurrences

_CONNECTED = "Zookeeper connection established"


class FewRepeats(logging.Filter):
    """Drops repeated lines. Kazoo's threads may call it at the same time: at worst, a line appears
    twice."""

    def __init__(self) -> None:
        super().__init__()
        self._seen = Occurrences()

    def filter(self, record: logging.LogRecord) -> bool:
        text = str(record.msg)
        if text.startswith(_CONNECTED):
            self._seen = Occurrences()
            return True
        times = self._seen.worth_telling(text)
        if times > 1:
            record.msg = f"{text} (%d times by now)"
            record.args = (*_arguments(record), times)
        return times > 0


def _arguments(record: logging.LogRecord) -> tuple[object, ...]:
    return record.args if isinstance(record.args, tuple) else ()


def quiet_logger() -> logging.Logger:
    """One for all clients of a process, under the name that kazoo itself uses."""
    logger = logging.getLogger("kazoo.client")
    if not any(isinstance(one, FewRepeats) for one in logger.filters):
        logger.addFilter(FewRepeats())
    return logger
