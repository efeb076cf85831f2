"""Runs a check at the leaders of a cluster, and again if one moves meanwhile.

Sessions in tests take seconds only, so one may end on a busy machine at any time.
"""

from __future__ import annotations

import asyncio

from crash_kit.checker import Checker
from crash_kit.load import Load
from crash_kit.reader import LeaderMoved
from floodmark.testing import Cluster
from kit.cluster import leader_ports
from kit.waiting import wait_for

PATIENCE_S = 60.0


def check_growth(cluster: Cluster, checker: Checker, load: Load) -> None:
    """`Checker.check_growth`."""
    _check(cluster, checker, load, is_end=False)


def check_all(cluster: Cluster, checker: Checker, load: Load) -> None:
    """`Checker.check_all`."""
    _check(cluster, checker, load, is_end=True)


def _check(cluster: Cluster, checker: Checker, load: Load, *, is_end: bool) -> None:
    check = checker.check_all if is_end else checker.check_growth

    def is_done() -> bool:
        ports = leader_ports(cluster, checker.topic, checker.partitions)
        try:
            asyncio.run(check(ports, load))
        except LeaderMoved:
            return False
        return True

    wait_for(is_done, PATIENCE_S)
