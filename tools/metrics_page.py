"""Writes the tables of docs/metrics.md from the catalog of metrics.

Run it after a change of `floodmark.observability.catalog`: `python tools/metrics_page.py`. A unit
test compares the page with what this would write, and the catalog with a scrape.
"""

from __future__ import annotations

import re
from pathlib import Path

from floodmark.observability.catalog import SECTIONS, Described

PAGE = Path(__file__).resolve().parent.parent / "docs" / "metrics.md"
BEGIN, END = "<!-- metrics: made by tools/metrics_page.py -->", "<!-- end of metrics -->"

# What a kind adds to its name at /metrics.
SUFFIXES = {"counter": "_total", "gauge": "", "summary": "", "histogram": ""}


def tables() -> str:
    return "\n\n".join(f"### {title}\n\n{_table(rows)}" for title, rows in SECTIONS.items())


def with_tables(page: str) -> str:
    """The page with its generated part replaced."""
    pattern = re.compile(f"{re.escape(BEGIN)}.*?{re.escape(END)}", re.DOTALL)
    page, count = pattern.subn(lambda _: f"{BEGIN}\n\n{tables()}\n\n{END}", page)
    if count != 1:
        raise ValueError(f"{PAGE.name} needs the marks {BEGIN} and {END} once")
    return page


def _table(rows: tuple[Described, ...]) -> str:
    lines = ["| metric | kind | labels | |", "|---|---|---|---|"]
    for name, kind, labels, text in rows:
        shown = ", ".join(labels)
        lines.append(f"| `{name}{SUFFIXES[kind]}` | {kind} | {shown} | {text} |")
    return "\n".join(lines)


if __name__ == "__main__":
    PAGE.write_text(with_tables(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
