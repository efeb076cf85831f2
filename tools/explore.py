"""Searches for defects with fresh seeds until its time is over: `make explore MINUTES=20`.

The gate (`make test`) draws the same schedules in every run. This draws new ones: one seed for a
round over hypothesis, power loss, simulation, fuzz and crashes. It stops at the first failure and
says how to repeat it. A defect that was found becomes a test in tests/regressions.
"""

from __future__ import annotations

import argparse
import os
import secrets
import shlex
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LARGEST_SEED = 1_000_000_000


@dataclass(frozen=True)
class Part:
    """One pytest run of a round."""

    name: str
    paths: tuple[str, ...]
    variables: dict[str, str] = field(default_factory=dict)

    def command(self, seed: int) -> list[str]:
        options = ["-q", "-x", "--timeout=600", f"--hypothesis-seed={seed}"]
        return [sys.executable, "-m", "pytest", *options, *self.paths]

    def environment(self, seed: int) -> dict[str, str]:
        return {**self.variables, "FLOODMARK_SEED": str(seed)}


PARTS = (
    Part("examples", ("-m", "hypothesis", "tests/unit")),
    Part("properties", ("tests/properties",)),
    Part("simulation", ("tests/simulation/test_schedules.py",)),
    Part("fuzz", ("tests/fuzz",), {"FLOODMARK_FUZZ_REQUESTS": "20000"}),
    Part("crashes", ("-m", "not soak", "tests/crash")),
    Part(
        "cluster faults",
        ("tests/crash/test_cluster_faults.py", "tests/crash/test_zombie_leader.py"),
        {},
    ),
    # Nothing is acknowledged at once, as in a cluster.
    Part(
        "flushed",
        (
            *("-m", "not soak", "tests/properties", "tests/crash"),
            "tests/regressions/test_hanging_transactions.py",
        ),
        {"FLOODMARK_TEST_SETTINGS": "log.flush.interval.messages=1"},
    ),
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=20, help="how long (20)")
    parser.add_argument("--seed", type=int, help="the seed of the first round (drawn)")
    parser.add_argument("--part", choices=[part.name for part in PARTS], help="only this part")
    arguments = parser.parse_args()
    end_s = time.monotonic() + arguments.minutes * 60
    seed = arguments.seed or secrets.randbelow(LARGEST_SEED) + 1
    parts = [part for part in PARTS if arguments.part in (None, part.name)]
    rounds = 0
    while True:
        for part in parts:
            if time.monotonic() >= end_s:
                print(f"explored {rounds} rounds, found nothing")
                return 0
            if not passes(part, seed):
                return 1
        rounds += 1
        seed = secrets.randbelow(LARGEST_SEED) + 1


def passes(part: Part, seed: int) -> bool:
    print(f"== {part.name} with seed {seed}", flush=True)
    variables = part.environment(seed)
    run = subprocess.run(part.command(seed), cwd=ROOT, env={**os.environ, **variables}, check=False)
    if run.returncode:
        print(f"\nFound with seed {seed}. To repeat it:\n  {spelled(part, seed)}", flush=True)
    return run.returncode == 0


def spelled(part: Part, seed: int) -> str:
    assignments = (f"{name}={value}" for name, value in part.environment(seed).items())
    command = part.command(seed)
    return " ".join(
        [*assignments, str(Path(command[0]).relative_to(ROOT)), shlex.join(command[1:])]
    )


if __name__ == "__main__":
    sys.exit(main())
