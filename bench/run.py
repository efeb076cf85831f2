"""Compares Apache Kafka 4.3.0 with our broker: the same load on both, in turn, in one run.

`python bench/run.py [--case P1 --case P2] [--target kafka] [--rounds 3] [--scale 1] [--write]`;
`make bench` calls it. README.md in this folder says what the cases are.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from cases import CASES, Case
from report import Results, Section, markdown, print_progress, write_section
from servers import TARGETS, Server, Settings, running

# What a round wrote is to be gone before the next: when a virtual machine has used up the pages
# that its host has given it, each new one costs both brokers several times as much. Kafka deletes
# nothing at all until the initial delay is over.
SETTINGS = {"log.segment.delete.delay.ms": "1000", "log.initial.task.delay.ms": "100"}
FILES_GONE_AFTER_S = 1.5
SECTION = Section(
    "## The broker",
    "What the cases do is in bench/README.md. In P1, P1b and P1c Floodmark checks a batch's\n"
    "header and CRC without decoding its records, which Kafka walks (docs/compatibility.md).",
)


def main(cases: Mapping[str, Case], section: Section, settings: Settings = None) -> int:
    """Run the cases that the command line asks for; `settings` are those of both brokers."""
    arguments = _arguments(cases)
    results: Results = {}
    with tempfile.TemporaryDirectory(prefix="floodmark-bench-") as folder, ExitStack() as stack:
        servers = [
            stack.enter_context(running(name, Path(folder) / name, settings))
            for name in arguments.target
        ]
        for name in arguments.case:
            measured = run_case(name, cases[name], servers, arguments.rounds, arguments.scale)
            results[name] = measured
    command = f"python bench/{Path(sys.argv[0]).name} " + " ".join(sys.argv[1:])
    table = markdown(section, cases, results, arguments.rounds, command.strip())
    print(table)
    if arguments.write:
        write_section(section.heading, table)
    return 0


def run_case(
    name: str, case: Case, servers: list[Server], rounds: int, scale: float
) -> dict[str, list[dict[str, float]]]:
    """The unmeasured rounds for each, then `rounds` in turn."""
    measured: dict[str, list[dict[str, float]]] = {server.name: [] for server in servers}
    for server in servers:
        with _alone(server, servers):
            for _ in range(case.warm_up_rounds):
                case.run(server, scale)
    for _ in range(rounds):
        for server in servers:
            with _alone(server, servers):
                outcome = case.run(server, scale)
            measured[server.name].append(outcome)
            print_progress(name, server.name, outcome)
    return measured


@contextmanager
def _alone(server: Server, servers: list[Server]) -> Iterator[None]:
    """The others are frozen meanwhile: a resting JVM takes a share of a core, and the caches."""
    others = [other for other in servers if other is not server]
    for other in others:
        other.process.freeze()
    try:
        yield
        time.sleep(FILES_GONE_AFTER_S)
    finally:
        for other in others:
            other.process.thaw()


def _arguments(cases: Mapping[str, Case]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--case", action="append", choices=list(cases), help="only this case")
    parser.add_argument("--target", action="append", choices=list(TARGETS), help="only this one")
    parser.add_argument("--rounds", type=int, default=3, help="measured rounds of each case")
    parser.add_argument("--scale", type=float, default=1.0, help="share of the full load")
    parser.add_argument("--write", action="store_true", help="write docs/benchmarks.md")
    arguments = parser.parse_args()
    arguments.case = arguments.case or list(cases)
    arguments.target = arguments.target or list(TARGETS)
    return arguments


if __name__ == "__main__":
    sys.exit(main(CASES, SECTION, SETTINGS))
