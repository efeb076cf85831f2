"""Renders the broker's numbers in Prometheus' text format. Called by `http` for each scrape, in a
thread.

Renders line by line: with prometheus_client's objects 20,000 series take half a second, in which
the loop waits for the interpreter lock again and again. prometheus_client only provides the process
metrics.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import accumulate

from prometheus_client.exposition import generate_latest
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import CollectorRegistry

from floodmark.observability.catalog import CATALOG, Described
from floodmark.observability.collecting import api_name
from floodmark.observability.readings import Readings
from floodmark.observability.timings import BUCKETS_MS, PARTS, QUANTILES, quantiles

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_BOUNDS_SECONDS = [*(bound_ms / 1000 for bound_ms in BUCKETS_MS), "+Inf"]
_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


def render(readings: Readings) -> bytes:
    """The text of a scrape, including the process metrics."""
    lines = [line for name, values in readings.values.items() for line in _plain(name, values)]
    for part, suffix in enumerate(PARTS):
        lines += _summary(CATALOG[f"kafka_network_requestmetrics_{suffix}"], part, readings)
    lines += _histogram(CATALOG["floodmark_request_duration_seconds"], readings)
    registry = CollectorRegistry(auto_describe=False)
    ProcessCollector(registry=registry)
    # A folder's name may not be valid UTF-8.
    return "".join(lines).encode(errors="replace") + generate_latest(registry)


def _head(described: Described, sample: str) -> str:
    name, kind, _, text = described
    # In this format a counter has the name of its samples.
    shown = sample if kind == "counter" else name
    return f"# HELP {shown} {text}\n# TYPE {shown} {kind}\n"


def _plain(name: str, values: Iterable[tuple[tuple[str, ...], float]]) -> Iterator[str]:
    """Counters and gauges. A total has fewer labels than the rest."""
    described = CATALOG[name]
    sample = name + "_total" if described.kind == "counter" else name
    yield _head(described, sample)
    for label_values, value in values:
        yield f"{sample}{_labels(described.labels, label_values)} {value}\n"


def _labels(names: tuple[str, ...], values: tuple[str, ...]) -> str:
    if not values:
        return ""
    pairs = [
        f'{name}="{value.translate(_ESCAPES)}"' for name, value in zip(names, values, strict=False)
    ]
    return f"{{{','.join(pairs)}}}"


def _summary(described: Described, part: int, readings: Readings) -> Iterator[str]:
    name = described.name
    yield _head(described, name)
    for api_key, numbers in readings.times.items():
        api = f'request="{api_name(api_key)}"'
        values = quantiles(numbers.samples_ms[part])
        for quantile, value in zip(QUANTILES, values, strict=False):
            yield f'{name}{{{api},quantile="{quantile}"}} {value}\n'
        yield f"{name}_sum{{{api}}} {numbers.sums_ms[part]}\n"
        yield f"{name}_count{{{api}}} {numbers.counts[part]}\n"


def _histogram(described: Described, readings: Readings) -> Iterator[str]:
    name = described.name
    yield _head(described, name)
    for api_key, numbers in readings.times.items():
        api = f'request="{api_name(api_key)}"'
        for bound, count in zip(_BOUNDS_SECONDS, accumulate(numbers.buckets), strict=True):
            yield f'{name}_bucket{{{api},le="{bound}"}} {count}\n'
        yield f"{name}_sum{{{api}}} {numbers.sums_ms[0] / 1000}\n"
        yield f"{name}_count{{{api}}} {numbers.counts[0]}\n"
