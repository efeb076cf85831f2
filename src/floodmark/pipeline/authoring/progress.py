"""An output's progress, from Spark's reports, and how it is shown.

`runner.py` collects it. The command line shows a live table on a terminal, otherwise plain lines.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from floodmark.pipeline.datasource.offsets import topics_in

if TYPE_CHECKING:
    from rich.table import Table

OBSERVED = "floodmark_rows"


@dataclass(frozen=True)
class OutputProgress:
    name: str
    is_active: bool
    batch: int | None = None
    rows_in: int = 0
    rows_out: int = 0
    rows_in_per_second: float = 0.0
    rows_out_per_second: float = 0.0
    lag: int = 0
    watermark: str | None = None
    state_rows: int = 0
    # Behind the watermark, so Spark dropped them.
    late_rows: int = 0
    # Over all batches of this run.
    late_rows_so_far: int = 0
    rows_in_so_far: int = 0
    rows_out_so_far: int = 0
    batches_so_far: int = 0
    batch_ms: int = 0
    # The sum of the offsets after the last batch, over all sources and partitions.
    position: int = 0

    @classmethod
    def from_report(
        cls, name: str, is_active: bool, report: Mapping[str, Any], latest: Mapping[str, Any]
    ) -> OutputProgress:
        batch_ms = int(report["durationMs"].get("triggerExecution", 0))
        rows_out = int(_observed(report))
        return cls(
            name=name,
            is_active=is_active,
            batch=report["batchId"],
            rows_in=report["numInputRows"],
            rows_out=rows_out,
            rows_in_per_second=float(report.get("processedRowsPerSecond") or 0.0),
            rows_out_per_second=rows_out / batch_ms * 1000 if batch_ms else 0.0,
            lag=sum(_lag(source) for source in latest["sources"]),
            watermark=report.get("eventTime", {}).get("watermark"),
            state_rows=sum(operator["numRowsTotal"] for operator in report["stateOperators"]),
            late_rows=_late_rows(report),
            batch_ms=batch_ms,
            position=sum(_position(source) for source in latest["sources"]),
        )

    def line(self) -> str:
        """One line for logs."""
        parts = [
            f"{self.name}: batch {self.batch}",
            f"{self.rows_in} rows in ({self.rows_in_per_second:.0f}/s)",
            f"{self.rows_out} out ({self.rows_out_per_second:.0f}/s)",
            f"lag {self.lag}",
        ]
        if self.watermark:
            parts.append(f"watermark {self.watermark}")
        if self.state_rows:
            parts.append(f"state {self.state_rows} rows")
        if self.late_rows:
            parts.append(f"{self.late_rows} dropped as late")
        return ", ".join([*parts, f"took {self.batch_ms} ms"])


class Follower:
    """Reads one output's reports on every poll, without missing a batch."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._seen: tuple[int, str] | None = None
        self._late_rows = 0
        self._rows_in = 0
        self._rows_out = 0
        self._batches = 0

    def follow(self, reports: Sequence[Mapping[str, Any]], is_active: bool) -> list[OutputProgress]:
        """The batches since the last call. Without news, the last one again with the current lag.

        Omits idle reports, unless there is nothing else yet.
        """
        if not reports:
            return [OutputProgress(self._name, is_active)]
        # An idle report has the number of the next batch.
        marks = [(report["batchId"], report["timestamp"]) for report in reports]
        first_new = marks.index(self._seen) + 1 if self._seen in marks else 0
        self._seen = marks[-1]
        news = [report for report in reports[first_new:] if _has_worked(report)]
        found = []
        for report in news or ([r for r in reports if _has_worked(r)] or reports)[-1:]:
            item = OutputProgress.from_report(self._name, is_active, report, reports[-1])
            found.append(self._with_sums(item, is_new=bool(news)))
        return found

    def _with_sums(self, item: OutputProgress, *, is_new: bool) -> OutputProgress:
        if is_new:
            self._late_rows += item.late_rows
            self._rows_in += item.rows_in
            self._rows_out += item.rows_out
            self._batches += 1
        return replace(
            item,
            late_rows_so_far=self._late_rows,
            rows_in_so_far=self._rows_in,
            rows_out_so_far=self._rows_out,
            batches_so_far=self._batches,
        )


def table_of(outputs: list[OutputProgress]) -> Table:
    """A table for a terminal, with the last batch of each output."""
    from rich.table import Table

    table = Table("output", "batch", "in/s", "out/s", "lag", "watermark", "state", "last batch")
    for item in {item.name: item for item in outputs}.values():
        if item.batch is None:
            table.add_row(item.name, "starting" if item.is_active else "-")
            continue
        table.add_row(
            item.name,
            str(item.batch),
            f"{item.rows_in_per_second:,.0f}",
            f"{item.rows_out_per_second:,.0f}",
            f"{item.lag:,}",
            item.watermark or "-",
            f"{item.state_rows:,}",
            f"{item.rows_in:,} rows, {item.batch_ms:,} ms"
            + (f", {item.late_rows_so_far:,} late so far" if item.late_rows_so_far else ""),
        )
    return table


def _has_worked(report: Mapping[str, Any]) -> bool:
    """A batch without input may still write: a watermark that advanced completes windows."""
    return bool(report["numInputRows"] or _late_rows(report) or _observed(report))


def _late_rows(report: Mapping[str, Any]) -> int:
    return sum(o.get("numRowsDroppedByWatermark", 0) for o in report["stateOperators"])


def _observed(report: Mapping[str, Any]) -> int:
    metrics = report.get("observedMetrics") or {}
    row = metrics.get(OBSERVED)
    return 0 if row is None else row["rows"]


def offsets_in(source: dict[str, Any], name: str) -> dict[str, dict[str, int]]:
    """The offsets in a report, which Spark gives as JSON. Before the first batch it is null."""
    return topics_in(json.loads(source.get(name) or "null"))


def _position(source: dict[str, Any]) -> int:
    topics = offsets_in(source, "endOffset").values()
    return sum(offset for partitions in topics for offset in partitions.values())


def _lag(source: dict[str, Any]) -> int:
    """What remains after the last batch, over all partitions of a source."""
    latest, ends = offsets_in(source, "latestOffset"), offsets_in(source, "endOffset")
    if not ends:
        return 0
    return sum(
        max(0, offset - ends.get(topic, {}).get(partition, 0))
        for topic, partitions in latest.items()
        for partition, offset in partitions.items()
    )
