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

- `floodmark_pipeline`: runs a pipeline file on given rows (`floodmark.testing.pipeline`), with this
  test's broker and one local Spark for all tests (`floodmark_spark`). `floodmark_spark_settings`
  changes Spark's settings.
- `floodmark_security`, `floodmark_session_security`: override them with "SASL_SSL", "SSL" or
  "SASL_PLAINTEXT"; `floodmark.security` then has certificates, a user and tokens.

Safe under xdist: each worker has its own brokers. The plugin imports no broker code until a test
needs it.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from floodmark.testing.broker_thread import Broker
    from floodmark.testing.cluster.cluster import Cluster
    from floodmark.testing.pipeline import PipelineUnderTest
    from floodmark.testing.values import SettingValue

_NOT_IN_TOPIC_NAMES = re.compile(r"[^a-zA-Z0-9._-]+")
_MAX_PREFIX = 100


class _AsInstalled(MetaPathFinder):
    """Imports Floodmark without pytest, which rewrites the asserts of packages that bring a plugin.

    For that it parses each module, and in Python 3.11 two threads that parse at once can fail with
    "AST constructor recursion depth mismatch" (python/cpython#106905): a test, and the broker that
    imports the rest of its code on a thread of its own.
    """

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not fullname.startswith("floodmark."):
            return None
        return PathFinder.find_spec(fullname, path, target)


sys.meta_path.insert(0, _AsInstalled())


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


@pytest.fixture(scope="session")
def floodmark_spark_settings() -> Mapping[str, str]:
    """Spark settings of `floodmark_spark`, such as spark.jars. Empty unless overridden."""
    return {}


@pytest.fixture(scope="session")
def floodmark_spark(
    tmp_path_factory: pytest.TempPathFactory, floodmark_spark_settings: Mapping[str, str]
) -> Iterator[SparkSession]:
    """One small local Spark for the whole session: starting it takes seconds."""
    from floodmark.pipeline.spark.session import spark_session

    folder = tmp_path_factory.mktemp("floodmark-spark")
    own = {
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.local.dir": str(folder / "local"),
    }
    settings = {**own, **floodmark_spark_settings}
    with spark_session("floodmark-tests", settings=settings, is_short=True) as session:
        yield session


@pytest.fixture
def floodmark_pipeline(
    floodmark: Broker, floodmark_spark: SparkSession, tmp_path: Path
) -> Callable[..., PipelineUnderTest]:
    """Makes a `PipelineUnderTest` of a pipeline file: floodmark_pipeline("words", settings={})."""
    from floodmark.testing.pipeline import PipelineUnderTest

    def make(
        path: str | Path,
        *,
        settings: Mapping[str, SettingValue] | None = None,
        environment: str | None = None,
    ) -> PipelineUnderTest:
        folder = tmp_path / f"floodmark-pipeline-{len(list(tmp_path.iterdir()))}"
        folder.mkdir()
        return PipelineUnderTest(
            path,
            broker=floodmark,
            spark=floodmark_spark,
            folder=folder,
            settings=settings,
            environment=environment,
        )

    return make


def _topic_for(request: pytest.FixtureRequest, broker: Broker) -> str:
    """Named after the test, so logs and tools show which test a topic belongs to."""
    from floodmark.testing.broker_thread import fresh_topic_name

    prefix = _NOT_IN_TOPIC_NAMES.sub("-", request.node.name)[:_MAX_PREFIX]
    return broker.create_topic(fresh_topic_name(prefix.strip("-.") or "topic"))
