"""The pytest plugin, installed with the package: starts a test broker in a fraction of a second.

    def test_my_pipeline(floodmark, floodmark_topic):
        run_pipeline(bootstrap_servers=floodmark.bootstrap_servers, topic=floodmark_topic)

- `floodmark`: this test's own broker (`floodmark.testing.Broker`). `floodmark_topic` is the name of
  a fresh topic on it.
- `floodmark_session`: one broker for all tests. `floodmark_session_topic` is a fresh topic per test
  on it.
- `floodmark_cluster`: three brokers (`floodmark.testing.Cluster`), each in its own process, that
  can be killed, paused and cut off.
- `floodmark_settings`, `floodmark_session_settings`, `floodmark_cluster_settings`: override these
  to change the broker settings:

    @pytest.fixture
    def floodmark_settings():
        return {"message.max.bytes": 1000}

- `floodmark_security`, `floodmark_session_security`: override them with "SASL_SSL", "SSL" or
  "SASL_PLAINTEXT"; `floodmark.security` then has certificates, a user and tokens.

Safe under xdist: each worker has its own brokers. The plugin imports no broker code until a test
needs it.
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
    """Settings of the `floodmark` broker. Empty unless overridden."""
    return {}


@pytest.fixture
def floodmark_security() -> str | None:
    """SSL, SASL_SSL or SASL_PLAINTEXT for the `floodmark` broker; none unless overridden."""
    return None


@pytest.fixture
def floodmark(
    tmp_path: Path,
    floodmark_settings: Mapping[str, SettingValue],
    floodmark_security: str | None,
) -> Iterator[Broker]:
    """This test's own broker, with a free port and its own data folder."""
    from floodmark.testing.broker_thread import Broker

    folder = tmp_path / "floodmark-data"
    with Broker(folder, floodmark_settings, security=floodmark_security) as running:
        yield running


@pytest.fixture
def floodmark_topic(floodmark: Broker, request: pytest.FixtureRequest) -> str:
    """The name of a fresh topic with one partition on the `floodmark` broker."""
    return _topic_for(request, floodmark)


@pytest.fixture(scope="session")
def floodmark_session_settings() -> Mapping[str, SettingValue]:
    """Settings of the `floodmark_session` broker. Empty unless overridden."""
    return {}


@pytest.fixture(scope="session")
def floodmark_session_security() -> str | None:
    """SSL, SASL_SSL or SASL_PLAINTEXT for `floodmark_session`; none unless overridden."""
    return None


@pytest.fixture(scope="session")
def floodmark_session(
    tmp_path_factory: pytest.TempPathFactory,
    floodmark_session_settings: Mapping[str, SettingValue],
    floodmark_session_security: str | None,
) -> Iterator[Broker]:
    """One broker for the whole session, for suites where each test uses its own topic."""
    from floodmark.testing.broker_thread import Broker

    folder, security = tmp_path_factory.mktemp("floodmark"), floodmark_session_security
    with Broker(folder, floodmark_session_settings, security=security) as running:
        yield running


@pytest.fixture
def floodmark_session_topic(
    floodmark_session: Broker, request: pytest.FixtureRequest
) -> Iterator[str]:
    """The name of a fresh topic with one partition on the `floodmark_session` broker.

    After the test, the broker is running again and has no faults.
    """
    yield _topic_for(request, floodmark_session)
    floodmark_session.faults.reset()
    if not floodmark_session.is_running:
        floodmark_session.start()


@pytest.fixture
def floodmark_cluster_settings() -> Mapping[str, SettingValue]:
    """Settings of the `floodmark_cluster` brokers. Empty unless overridden."""
    return {}


@pytest.fixture
def floodmark_cluster(
    tmp_path: Path, floodmark_cluster_settings: Mapping[str, SettingValue]
) -> Iterator[Cluster]:
    """This test's own three brokers, ready in about a second."""
    from floodmark.testing.cluster.cluster import Cluster

    with Cluster(tmp_path / "floodmark-cluster", floodmark_cluster_settings) as running:
        yield running


def _topic_for(request: pytest.FixtureRequest, broker: Broker) -> str:
    """Named after the test, so logs and tools show which test a topic belongs to."""
    from floodmark.testing.broker_thread import fresh_topic_name

    prefix = _NOT_IN_TOPIC_NAMES.sub("-", request.node.name)[:_MAX_PREFIX]
    return broker.create_topic(fresh_topic_name(prefix.strip("-.") or "topic"))
