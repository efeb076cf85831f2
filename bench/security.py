"""What security costs: ACLs beside the same broker without, and TLS beside Kafka's TLS.

`python bench/security.py [--case A1 --case T1] [--rounds 3] [--scale 1] [--write]`. The loads are
those of run.py; bench/README.md says more.
"""

import argparse
import statistics
import sys
import tempfile
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from pathlib import Path

from cases import CASES
from report import machine, write_section
from run import run_case
from secured import broker_with_acls, broker_with_tls, open_broker
from servers import Server

HEADING = "## Security"
NOTES = (
    "A1 and A1s are P1 and P1s over PLAINTEXT with an authorizer and a hundred ACLs of others.\n"
    "T1, T1s and T2 are P1, P1s and P2 over TLS 1.3. What the cases do is in bench/README.md."
)
_TARGETS: dict[str, Callable[[Path], AbstractContextManager[Server]]] = {
    "kafka": lambda folder: open_broker("kafka", folder),
    "floodmark": lambda folder: open_broker("floodmark", folder),
    "kafka-acls": lambda folder: broker_with_acls("kafka", folder),
    "floodmark-acls": lambda folder: broker_with_acls("floodmark", folder),
    "kafka-tls": lambda folder: broker_with_tls("kafka", folder),
    "floodmark-tls": lambda folder: broker_with_tls("floodmark", folder),
}
_WITH_ACLS = ("kafka", "floodmark", "kafka-acls", "floodmark-acls")
_WITH_TLS = ("kafka-tls", "floodmark-tls")


@dataclass(frozen=True)
class Comparison:
    """A load of run.py on several brokers. The CPU per message of `ours` is at most `bound` times
    that of `other`."""

    load: str
    targets: tuple[str, ...]
    ours: str
    other: str
    bound: float


_ACLS = ("floodmark-acls", "floodmark", 1.05)
_TLS = ("floodmark-tls", "kafka-tls", 1.0)
COMPARISONS = {
    "A1": Comparison("P1", _WITH_ACLS, *_ACLS),
    "A1s-1": Comparison("P1s-1", _WITH_ACLS, *_ACLS),
    "A1s-32": Comparison("P1s-32", _WITH_ACLS, *_ACLS),
    "T1": Comparison("P1", _WITH_TLS, *_TLS),
    "T1s-32": Comparison("P1s-32", _WITH_TLS, *_TLS),
    "T2": Comparison("P2", _WITH_TLS, *_TLS),
}


def main() -> int:
    arguments = _arguments()
    rows = []
    with tempfile.TemporaryDirectory(prefix="floodmark-bench-") as folder:
        # One group after the other: six brokers at once would want more memory than they are worth.
        for targets in (_WITH_ACLS, _WITH_TLS):
            wanted = [name for name in arguments.case if COMPARISONS[name].targets == targets]
            if wanted:
                rows += _measured(wanted, targets, Path(folder), arguments)
    command = f"python bench/{Path(sys.argv[0]).name} " + " ".join(sys.argv[1:])
    table = _markdown(rows, arguments.rounds, command.strip())
    print(table)
    if arguments.write:
        write_section(HEADING, table)
    return 0


def _measured(
    names: list[str], targets: tuple[str, ...], folder: Path, arguments: argparse.Namespace
) -> list[str]:
    rows = []
    with ExitStack() as stack:
        servers = [stack.enter_context(_TARGETS[name](folder / name)) for name in targets]
        for name in names:
            comparison = COMPARISONS[name]
            case = CASES[comparison.load]
            results = run_case(name, case, servers, arguments.rounds, arguments.scale)
            medians = {
                target: statistics.median(one["cpu"] for one in rounds)
                for target, rounds in results.items()
            }
            rows.append(_row(name, comparison, case.title, medians))
    return rows


def _row(name: str, comparison: Comparison, title: str, medians: dict[str, float]) -> str:
    ratio = medians[comparison.ours] / medians[comparison.other]
    numbers = "; ".join(f"{target} {value:.3g}" for target, value in medians.items())
    cells = [
        f"{name}: {title}",
        numbers,
        f"{comparison.ours} / {comparison.other}",
        f"{ratio:.2f}",
        f"<= {comparison.bound:g} x",
        "yes" if ratio <= comparison.bound else "**no**",
    ]
    return "| " + " | ".join(cells) + " |"


def _markdown(rows: list[str], rounds: int, command: str) -> str:
    columns = ["case", "broker CPU per message (us)", "compared", "ratio", "bound", "kept"]
    lines = [
        HEADING,
        "",
        f"Made by `{command}` in one run on one machine: {machine()}.",
        f"Median of {rounds} rounds after unmeasured ones; the brokers took turns.",
        NOTES,
        "",
        "| " + " | ".join(columns) + " |",
        "|" + "---|" * len(columns),
        *rows,
    ]
    return "\n".join(lines) + "\n"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--case", action="append", choices=list(COMPARISONS), help="only this case")
    parser.add_argument("--rounds", type=int, default=3, help="measured rounds of each case")
    parser.add_argument("--scale", type=float, default=1.0, help="share of the full load")
    parser.add_argument("--write", action="store_true", help="write docs/benchmarks.md")
    arguments = parser.parse_args()
    arguments.case = arguments.case or list(COMPARISONS)
    return arguments


if __name__ == "__main__":
    sys.exit(main())
