"""The pytest plugin that installs with the package: a broker for a test, in a fraction of a second.

    def test_my_pipeline(floodmark, floodmark_topic):
        run_pipeline(bootstrap_servers=floodmark.bootstrap_servers, topic=floodmark_topic)

- `floodmark`: an in-process broker (`floodmark.testing.broker_thread.BrokerThread`) on a free port
  with a data folder of its own; it ends with the test. Any Kafka client works against its
  `bootstrap_servers`; `create_topic(name, partitions, configs)` makes topics, `faults` makes
  requests fail, wait or get lost (`floodmark.testing.faults.Faults`).
- `floodmark_topic`: the name of a fresh topic on it.
- `floodmark_settings`: override it to give the broker other settings, under Kafka's names:

    @pytest.fixture
    def floodmark_settings():
        return {"message.max.bytes": "1000"}

Safe under xdist: nothing is shared between workers. Nothing of the broker is imported before a test
asks for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

if TYPE_CHECKING:
    from floodmark.testing.broker_thread import BrokerThread


@pytest.fixture
def floodmark_settings() -> Mapping[str, str]:
    """Settings of the `floodmark` broker; none beyond the defaults unless overridden."""
    return {}


@pytest.fixture
def floodmark(tmp_path: Path, floodmark_settings: Mapping[str, str]) -> Iterator[BrokerThread]:
    """A broker of this test's own."""
    from floodmark.testing.broker_thread import BrokerThread

    with BrokerThread(tmp_path / "floodmark-data", floodmark_settings) as running:
        yield running


@pytest.fixture
def floodmark_topic(floodmark: BrokerThread) -> str:
    """The name of a fresh topic with one partition."""
    return floodmark.create_topic(f"topic-{uuid4().hex[:12]}")
