"""docs/metrics.md and the dashboard name what a scrape has, and a scrape has what they name."""

import json
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from floodmark.client.admin.admin import Admin
from floodmark.observability.catalog import CATALOG
from floodmark.security.quota_entities import QuotaEntity
from floodmark.testing.broker_thread import BrokerThread
from fuzz_kit.raw_client import RawClient
from kit.plain_requests import commit, fetch_request, produce, produce_request
from kit.scraping import Watcher
from kit.scripts import load_tool

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "metrics.md"
DASHBOARD = ROOT / "docs" / "grafana" / "floodmark.json"

WITH_TLS = {"floodmark_network_certificateexpirydays", "floodmark_network_failedhandshakes"}
"""Only listeners with TLS have these."""

NAME = re.compile(r"\b(?:kafka|floodmark|process)_[a-z_]+")


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    return load_tool("metrics_page")


def test_the_page_is_made_from_the_catalog(tool: ModuleType) -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page == tool.with_tables(page), "run python tools/metrics_page.py"


def test_a_page_without_its_marks_is_refused(tool: ModuleType) -> None:
    with pytest.raises(ValueError, match="needs the marks"):
        tool.with_tables("# A page\n")


async def use(floodmark: BrokerThread) -> None:
    """All that makes a series appear: a quota, records, a fetch, an error, a group."""
    async with Admin(floodmark.bootstrap_servers) as admin:
        quotas = {"producer_byte_rate": 1e9, "request_percentage": 1e9}
        await admin.alter_client_quotas(QuotaEntity(user="ANONYMOUS"), quotas)
    topic = floodmark.create_topic("t")
    produce(floodmark, topic, 3)
    with RawClient(floodmark.bootstrap_servers) as client:
        client.ask(fetch_request(topic, 0), 11)
        client.ask(produce_request("not-there"), 9)
    await commit(floodmark, "g", topic, 1)


async def test_a_scrape_and_the_page_name_the_same_metrics(
    floodmark: BrokerThread, watcher: Watcher
) -> None:
    await use(floodmark)
    families = {family.name: family for family in watcher.families()}
    assert families.keys() == CATALOG.keys() - WITH_TLS
    for name, family in families.items():
        described = CATALOG[name]
        assert family.type == described.kind, name
        if not name.startswith("process_"):  # of these prometheus_client says it in its own words
            assert family.documentation == described.text
        labels = {label for sample in family.samples for label in sample.labels}
        assert labels == set(described.labels), name


async def test_the_dashboard_asks_for_metrics_that_exist(
    floodmark: BrokerThread, watcher: Watcher
) -> None:
    await use(floodmark)
    names = {sample.name for family in watcher.families() for sample in family.samples}
    dashboard = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    asked = {name for text in _queries(dashboard) for name in NAME.findall(text)}
    assert len(asked) > 20
    assert asked <= names


def _queries(part: Any) -> list[str]:
    """Every `expr` of a panel, and `query` of a variable, however deep."""
    if isinstance(part, list):
        return [text for item in part for text in _queries(item)]
    if not isinstance(part, dict):
        return []
    found = [value for key, value in part.items() if key in ("expr", "query")]
    return [text for text in found if isinstance(text, str)] + _queries(list(part.values()))
