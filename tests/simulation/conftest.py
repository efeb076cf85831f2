"""Which seeds the simulation runs.

By default a fixed set, so that the gate is repeatable. FLOODMARK_SIM_SCHEDULES says how many,
FLOODMARK_SEED draws others; `--seed N` repeats one schedule.
"""

from __future__ import annotations

import logging
import os
from itertools import pairwise

import pytest

from kit.seeds import seeds

DEFAULT_SCHEDULES = 500
"""About 30 seconds of one core, and the lessons take as long again."""
CHUNKS = 8


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--seed", type=int, default=None, help="run the schedule of this seed only")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "seeds" not in metafunc.fixturenames:
        return
    first, schedules = _seeds(metafunc.config)
    # In chunks, so that several workers share them.
    chunks = min(CHUNKS, schedules)
    bounds = [first + schedules * part // chunks for part in range(chunks + 1)]
    ranges = [range(start, end) for start, end in pairwise(bounds)]
    metafunc.parametrize("seeds", ranges, ids=[f"{one.start}-{one.stop}" for one in ranges])


def _seeds(config: pytest.Config) -> tuple[int, int]:
    """The first seed, and how many."""
    seed = config.getoption("--seed", default=None)
    if seed is not None:
        return seed, 1
    schedules = int(os.environ.get("FLOODMARK_SIM_SCHEDULES", DEFAULT_SCHEDULES))
    return seeds(schedules).start, schedules


@pytest.fixture(autouse=True)
def _quiet_log(caplog: pytest.LogCaptureFixture) -> None:
    """Recovery warns about every torn write, and there are thousands here."""
    caplog.set_level(logging.CRITICAL, "floodmark")
