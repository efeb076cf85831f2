"""`--seed N` repeats one schedule; FLOODMARK_SIM_SEED does the same, FLOODMARK_SIM_SCHEDULES sets
how many are tried."""

from __future__ import annotations

import logging
import os
from itertools import pairwise

import pytest

DEFAULT_SCHEDULES = 1000
"""About 20 seconds of one core, and the lessons take some more."""
CHUNKS = 8


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--seed", type=int, default=None, help="run the schedule of this seed only")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "seeds" not in metafunc.fixturenames:
        return
    seed = metafunc.config.getoption("--seed", default=None)
    if seed is None and "FLOODMARK_SIM_SEED" in os.environ:
        seed = int(os.environ["FLOODMARK_SIM_SEED"])
    if seed is not None:
        metafunc.parametrize("seeds", [range(seed, seed + 1)], ids=[str(seed)])
        return
    schedules = int(os.environ.get("FLOODMARK_SIM_SCHEDULES", DEFAULT_SCHEDULES))
    # In chunks, so that several workers share them.
    bounds = [schedules * part // CHUNKS for part in range(CHUNKS + 1)]
    chunks = [range(start, end) for start, end in pairwise(bounds)]
    metafunc.parametrize("seeds", chunks, ids=[f"{c.start}-{c.stop}" for c in chunks])


@pytest.fixture(autouse=True)
def _quiet_log(caplog: pytest.LogCaptureFixture) -> None:
    """Recovery has a warning for every torn write, of which there are thousands here."""
    caplog.set_level(logging.CRITICAL, "floodmark")
