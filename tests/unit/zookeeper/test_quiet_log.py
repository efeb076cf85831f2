"""While ZooKeeper is away, kazoo's log stays short, and is whole again after a connection."""

from __future__ import annotations

import logging

from floodmark.zookeeper.quiet_log import FewRepeats


def told(quiet: FewRepeats, text: str, *arguments: object) -> str | None:
    record = logging.LogRecord("kazoo.client", logging.INFO, "", 0, text, arguments, None)
    return record.getMessage() if quiet.filter(record) else None


def test_repeats_are_counted_and_told_ever_more_rarely() -> None:
    quiet = FewRepeats()
    lines = [told(quiet, "Connecting to %s:%d", "host", number) for number in range(1000)]
    assert [line for line in lines if line is not None][:3] == [
        "Connecting to host:0",
        "Connecting to host:1 (2 times by now)",
        "Connecting to host:3 (4 times by now)",
    ]
    assert sum(line is not None for line in lines) == 10


def test_after_a_connection_the_next_outage_is_told() -> None:
    quiet = FewRepeats()
    for _ in range(3):
        told(quiet, "Connection dropped: %s", "refused")
    assert told(quiet, "Zookeeper connection established, state: %s", "CONNECTED") is not None
    assert told(quiet, "Connection dropped: %s", "refused") == "Connection dropped: refused"
