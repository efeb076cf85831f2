"""Where the tests take chance from: fixed in the gate, fresh in `make explore`.

Without `FLOODMARK_SEED` every run draws the same schedules, so the outcome of `make test` does not
depend on luck. With it, all of them (crashes, fuzz, simulation, power loss, hypothesis) draw from
that seed; the variable set to the printed value repeats the run.
"""

import os

from hypothesis import HealthCheck, settings

VARIABLE = "FLOODMARK_SEED"
GATE_SEED = 1
APART = 1000
"""Consecutive seeds of two runs do not overlap, as long as each takes fewer than this."""


def is_exploring() -> bool:
    return VARIABLE in os.environ


def seed() -> int:
    """The seed of one random schedule."""
    return int(os.environ.get(VARIABLE, GATE_SEED))


def seeds(count: int) -> range:
    """The seeds of several schedules: 0, 1, 2... in the gate, others for each other seed."""
    first = seed() * APART if is_exploring() else 0
    return range(first, first + count)


def set_up_hypothesis() -> None:
    """Called by conftest.py before any test is defined, because settings copy the profile then."""
    common = settings(
        deadline=None,
        database=None,
        print_blob=True,
        # A busy machine is slow without a fault of ours.
        suppress_health_check=[HealthCheck.too_slow],
    )
    settings.register_profile("gate", common, derandomize=True)
    settings.register_profile("explore", common)
    settings.load_profile("explore" if is_exploring() else "gate")
