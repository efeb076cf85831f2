"""/metrics, /healthz and /readyz of a broker, asked as Prometheus and orchestrators do."""

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from prometheus_client.core import Metric
from prometheus_client.parser import text_string_to_metric_families

from floodmark.observability.http import MetricsServer, serve_metrics
from floodmark.testing.broker_thread import BrokerThread


@dataclass(frozen=True)
class Watcher:
    server: MetricsServer

    def get(self, path: str) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(f"http://{self.server.host}:{self.server.port}{path}") as a:
                return a.status, a.read().decode()
        except urllib.error.HTTPError as refusal:
            with refusal:
                return refusal.code, refusal.read().decode()

    def ask(self, path: str) -> tuple[int, Any]:
        status, body = self.get(path)
        return status, json.loads(body)

    def families(self) -> list[Metric]:
        status, text = self.get("/metrics")
        assert status == 200
        return list(text_string_to_metric_families(text))

    def scrape(self) -> "Samples":
        return Samples(self.families())


class Samples:
    """The values of one scrape. `of(name, label=value)` is one, `all(name)` are all by labels."""

    def __init__(self, families: list[Metric]) -> None:
        self._values: dict[tuple[str, frozenset[tuple[str, str]]], float] = {}
        for family in families:
            for sample in family.samples:
                key = (sample.name, frozenset(sample.labels.items()))
                assert key not in self._values, f"{key} is there twice"
                self._values[key] = sample.value

    def of(self, name: str, **labels: str) -> float:
        return self._values[name, frozenset(labels.items())]

    def all(self, name: str) -> list[tuple[dict[str, str], float]]:
        return [(dict(labels), v) for (found, labels), v in self._values.items() if found == name]


@contextmanager
def watched(floodmark: BrokerThread) -> Iterator[Watcher]:
    server = floodmark.call(serve_metrics(floodmark.broker, 0))
    try:
        yield Watcher(server)
    finally:
        floodmark.call(server.close())
