"""Prometheus metrics of a pipeline."""

import urllib.request

import pytest

from floodmark.pipeline.authoring.metrics import PipelineMetrics, served
from floodmark.pipeline.authoring.progress import OutputProgress
from floodmark.pipeline.errors import PipelineError


def scraped(port: int) -> dict[str, float]:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as response:
        lines = response.read().decode().splitlines()
    samples = [line.rpartition(" ") for line in lines if not line.startswith("#")]
    return {name: float(value) for name, _, value in samples}


def test_progress_becomes_counters_and_gauges_that_count_each_batch_once() -> None:
    metrics = PipelineMetrics()
    observe = metrics.observer("shop")
    first = OutputProgress(
        "out", True, batch=3, lag=7, batch_ms=1500, rows_in_so_far=10, batches_so_far=1
    )
    second = OutputProgress(
        "out", True, batch=4, rows_in_so_far=15, rows_out_so_far=2, batches_so_far=2, state_rows=9
    )
    for outputs in ([OutputProgress("out", True)], [first], [first], [second], [second]):
        observe(outputs)
    with served(metrics, "127.0.0.1", 0) as port:
        found = scraped(port)
        refused = pytest.raises(PipelineError, match="choose another --metrics-port")
        with refused, served(metrics, "127.0.0.1", port):
            pytest.fail("two servers on one port")
    labels = '{output="out",pipeline="shop"}'
    expected = {
        "input_rows_total": 15,
        "output_rows_total": 2,
        "batches_total": 2,
        "late_rows_total": 0,
        "batch": 4,
        "batch_duration_seconds": 0,
        "lag_records": 0,
        "state_rows": 9,
    }
    assert {n: found[f"floodmark_pipeline_{n}{labels}"] for n in expected} == expected
