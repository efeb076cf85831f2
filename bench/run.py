"""Compares Apache Kafka 4.3.0 with our broker: the same load on both, in turn, in one run.

`python bench/run.py [--case P1 --case P2] [--target kafka] [--rounds 3] [--scale 1] [--write]`;
`make bench` calls it. README.md in this folder says what the cases are.
"""

import argparse
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from cases import CASES
from report import SECTION, Results, markdown, print_progress, write_section
from servers import TARGETS, Server, running


def main() -> int:
    arguments = _arguments()
    results: Results = {}
    with tempfile.TemporaryDirectory(prefix="floodmark-bench-") as folder, ExitStack() as stack:
        servers = [
            stack.enter_context(running(name, Path(folder) / name)) for name in arguments.target
        ]
        for case in arguments.case:
            results[case] = _run_case(case, servers, arguments.rounds, arguments.scale)
    command = "python bench/run.py " + " ".join(sys.argv[1:])
    table = markdown(results, arguments.target, arguments.rounds, command.strip())
    print(table)
    if arguments.write:
        write_section(SECTION, table)
    return 0


def _run_case(
    case: str, servers: list[Server], rounds: int, scale: float
) -> dict[str, list[dict[str, float]]]:
    """The unmeasured rounds for each, then `rounds` in turn."""
    measured: dict[str, list[dict[str, float]]] = {server.name: [] for server in servers}
    for server in servers:
        for _ in range(CASES[case].warm_up_rounds):
            CASES[case].run(server, scale)
    for _ in range(rounds):
        for server in servers:
            outcome = CASES[case].run(server, scale)
            measured[server.name].append(outcome)
            print_progress(case, server.name, outcome)
    return measured


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--case", action="append", choices=list(CASES), help="only this case")
    parser.add_argument("--target", action="append", choices=list(TARGETS), help="only this one")
    parser.add_argument("--rounds", type=int, default=3, help="measured rounds of each case")
    parser.add_argument("--scale", type=float, default=1.0, help="share of the full load")
    parser.add_argument("--write", action="store_true", help="write docs/benchmarks.md")
    arguments = parser.parse_args()
    arguments.case = arguments.case or list(CASES)
    arguments.target = arguments.target or list(TARGETS)
    return arguments


if __name__ == "__main__":
    sys.exit(main())
