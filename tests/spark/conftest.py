"""A Spark session and a broker for the tests of pipelines; each test makes topics of its own."""

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from floodmark.pipeline.authoring import runner
from floodmark.pipeline.spark.session import spark_session
from kit.broker import Broker
from kit.s3 import s3_class_path
from kit.spark_jars import avro_jar, connector_jars, driver_jars
from kit.target import broker_under_test
from kit.tools import require_tool

# A JVM of a test lives for seconds: it starts fast and compiles little. Brokers have it, too, so
# nothing may stand here that contradicts their own options.
_JAVA = "-XX:TieredStopAtLevel=1"


@pytest.fixture(scope="session", autouse=True)
def _quick() -> Iterator[None]:
    """Nothing waits for optimized code, nor for the next look at a query that has ended."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAVA_TOOL_OPTIONS", _JAVA)
        patch.setattr(runner, "POLL_SECONDS", 0.05)
        yield


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """The broker under test, ours unless FLOODMARK_TEST_TARGET says kafka."""
    settings = {"log.retention.ms": "-1"}  # records are dated as a test needs them
    with broker_under_test(tmp_path_factory.mktemp("broker"), settings) as running:
        yield running


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """One small local session for all tests of a run: starting a JVM takes longer than most.

    It also has Spark's own Kafka connector, which must work with our broker, its Avro reader, and
    drivers of databases.
    """
    require_tool("java", "mvn")
    folder = tmp_path_factory.mktemp("spark")
    settings = {
        "spark.jars": f"{connector_jars()},{avro_jar()},{driver_jars()}",
        "spark.driver.extraClassPath": s3_class_path(),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.local.dir": str(folder / "local"),
    }
    with spark_session("floodmark-tests", settings=settings, is_short=True) as session:
        yield session


@pytest.fixture
def topic() -> str:
    """A topic name that no other test uses."""
    return f"spark-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def checkpoint(tmp_path: Path) -> str:
    return str(tmp_path / "checkpoint")


# What takes longest. Two processes share the files (`make test-spark`): the last ones are short.
_LONGEST = (
    "test_exactly_once.py",
    "test_packaged.py",
    "test_outages.py",
    "test_connect.py",
    "test_integration.py",
    "test_declarative.py",
    "test_databases.py",
    "test_run_together.py",
    "test_demo.py",
    "test_clickstream.py",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """More time than other tests get: a busy machine takes long to start Spark's processes."""
    own = [item for item in items if Path(__file__).parent in item.path.parents]
    for item in own:
        if not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(400))
    if len(own) == len(items):
        items.sort(key=_place)


def _place(item: pytest.Item) -> int:
    name = item.path.name
    return _LONGEST.index(name) if name in _LONGEST else len(_LONGEST)
