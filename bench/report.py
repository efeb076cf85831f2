"""Turns the measured rounds into a Markdown table: medians, ratios, and whether a bound is kept."""

import os
import platform
import statistics
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from cases import Case, Measure

# case -> target -> rounds -> measure -> number
Results = dict[str, dict[str, list[dict[str, float]]]]

_TITLES = {"kafka": "Apache Kafka 4.3.0", "floodmark": "Floodmark"}
PAGE = Path(__file__).parent.parent / "docs" / "benchmarks.md"


@dataclass(frozen=True)
class Section:
    """A part of docs/benchmarks.md: its heading, and what to know before reading the table."""

    heading: str
    notes: str


def write_section(heading: str, section: str) -> None:
    """Puts a section into docs/benchmarks.md in place of the one with its heading."""
    text = PAGE.read_text() if PAGE.exists() else "# Benchmarks\n"
    before, found, after = text.partition(heading)
    _, following, rest = after.partition("\n## ") if found else ("", "", "")
    tail = f"\n## {rest}" if following else ""
    PAGE.write_text(before.rstrip() + "\n\n" + section.rstrip() + "\n" + tail)


def print_progress(case: str, target: str, outcome: dict[str, float]) -> None:
    numbers = "  ".join(f"{name} {value:.4g}" for name, value in outcome.items())
    print(f"{case:7} {target:10} {numbers}", file=sys.stderr, flush=True)


def markdown(
    section: Section, cases: Mapping[str, Case], results: Results, rounds: int, command: str
) -> str:
    targets = list(next(iter(results.values())))
    heads = [_TITLES[name] for name in targets]
    compared = {"kafka", "floodmark"} <= set(targets)
    columns = ["case", "measure", *heads, *(["ratio", "bound", "kept"] if compared else [])]
    lines = [
        section.heading,
        "",
        f"Made by `{command}` in one run on one machine: {machine()}.",
        f"Median of {rounds} rounds after unmeasured ones; the brokers took turns.",
        section.notes,
        "",
        "| " + " | ".join(columns) + " |",
        "|" + "---|" * len(columns),
    ]
    for case, by_target in results.items():
        for name, measure in cases[case].measures.items():
            medians = {t: statistics.median(r[name] for r in by_target[t]) for t in targets}
            cells = [f"{case}: {cases[case].title}", f"{measure.label} ({measure.unit})"]
            cells += [_number(medians[target]) for target in targets]
            if compared:
                cells += _judged(measure, medians["kafka"], medians["floodmark"])
            lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def _judged(measure: Measure, kafka: float, ours: float) -> list[str]:
    ratio = f"{ours / kafka:.2f}" if kafka else ""
    if measure.ratio is not None:
        kept = ours <= kafka * measure.ratio
        return [ratio, f"<= {measure.ratio:g} x", "yes" if kept else "**no**"]
    if measure.least_ratio is not None:
        kept = ours >= kafka * measure.least_ratio
        return [ratio, f">= {measure.least_ratio:g} x", "yes" if kept else "**no**"]
    if measure.limit is not None:
        kept = ours <= measure.limit
        return [ratio, f"<= {measure.limit:g} {measure.unit}", "yes" if kept else "**no**"]
    return [ratio, "", ""]


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def machine() -> str:
    model = "unknown processor"
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.partition(":")[2].strip()
            break
    return f"{os.cpu_count()} cores of {model}, Python {platform.python_version()}"
