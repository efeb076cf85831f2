"""The pytest plugin that installs with the package: a broker for a test, in a fraction of a second.

    def test_my_pipeline(floodmark, floodmark_topic):
        run_pipeline(bootstrap_servers=floodmark.bootstrap_servers, topic=floodmark_topic)

- `floodmark`: a broker (`floodmark.testing.Broker`) of this test's own; `floodmark_topic` is the
  name of a fresh topic on it.
- `floodmark_session`: one broker for all tests; `floodmark_session_topic` is a topic per test on
  it.
- `floodmark_cluster`: three brokers (`floodmark.testing.Cluster`), each a process of its own, that
  can be killed, paused and cut off.
- `floodmark_settings`, `floodmark_session_settings`, `floodmark_cluster_settings`: override them to
  give brokers other settings:

    @pytest.fixture
    def floodmark_settings():
        return {"message.max.bytes": 1000}

Safe under xdist: each worker has its own brokers. Nothing of the broker is imported before a test
asks for it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from floodmark.testing.broker_thread import Broker
    from floodmark.testing.cluster.cluster import Cluster
    from floodmark.testing.values import SettingValue

_NOT_IN_TOPIC_NAMES = re.compile(r"[^a-zA-Z0-9._-]+")
_MAX_PREFIX = 100


@pytest.fixture
def floodmark_settings() -> Mapping[str, SettingValue]:
    """Settings of the `floodmark` broker; none beyond the defaults unless overridden."""
    return {}


@pytest.fixture
def floodmark(tmp_path: Path, floodmark_settings: Mapping[str, SettingValue]) -> Iterator[Broker]:
    """A broker of this test's own, on a free port and with a data folder of its own."""
    from floodmark.testing.broker_thread import Broker

    with Broker(tmp_path / "floodmark-data", floodmark_settings) as running:
        yield running


@pytest.fixture
def floodmark_topic(floodmark: Broker, request: pytest.FixtureRequest) -> str:
    """The name of a fresh topic with one partition on the `floodmark` broker."""
    return _topic_for(request, floodmark)


@pytest.fixture(scope="session")
def floodmark_session_settings() -> Mapping[str, SettingValue]:
    """Settings of the `floodmark_session` broker; none beyond the defaults unless overridden."""
    return {}


@pytest.fixture(scope="session")
def floodmark_session(
    tmp_path_factory: pytest.TempPathFactory,
    floodmark_session_settings: Mapping[str, SettingValue],
) -> Iterator[Broker]:
    """One broker for all tests of the session, for suites where each test has its own topic."""
    from floodmark.testing.broker_thread import Broker

    with Broker(tmp_path_factory.mktemp("floodmark"), floodmark_session_settings) as running:
        yield running


@pytest.fixture
def floodmark_session_topic(
    floodmark_session: Broker, request: pytest.FixtureRequest
) -> Iterator[str]:
    """The name of a fresh topic with one partition on the `floodmark_session` broker.

    After the test the broker is as the next one expects it: running, and without faults.
    """
    yield _topic_for(request, floodmark_session)
    floodmark_session.faults.reset()
    if not floodmark_session.is_running:
        floodmark_session.start()


@pytest.fixture
def floodmark_cluster_settings() -> Mapping[str, SettingValue]:
    """Settings of the brokers of `floodmark_cluster`; none unless overridden."""
    return {}


@pytest.fixture
def floodmark_cluster(
    tmp_path: Path, floodmark_cluster_settings: Mapping[str, SettingValue]
) -> Iterator[Cluster]:
    """Three brokers of this test's own, in about a second."""
    from floodmark.testing.cluster.cluster import Cluster

    with Cluster(tmp_path / "floodmark-cluster", floodmark_cluster_settings) as running:
        yield running


def _topic_for(request: pytest.FixtureRequest, broker: Broker) -> str:
    """Named after the test, so that logs and tools show which one a topic belongs to."""
    from floodmark.testing.broker_thread import fresh_topic_name

    prefix = _NOT_IN_TOPIC_NAMES.sub("-", request.node.name)[:_MAX_PREFIX]
    return broker.create_topic(fresh_topic_name(prefix.strip("-.") or "topic"))
