"""A Spark session and a broker for the tests of pipelines; each test makes topics of its own."""

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from floodmark.pipeline.spark.session import spark_session
from kit.broker import Broker
from kit.spark_jars import avro_jar, connector_jars
from kit.target import broker_under_test
from kit.tools import require_tool


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """The broker under test, ours unless FLOODMARK_TEST_TARGET says kafka."""
    settings = {"log.retention.ms": "-1"}  # records are dated as a test needs them
    with broker_under_test(tmp_path_factory.mktemp("broker"), settings) as running:
        yield running


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """One small local session for all tests of a run: starting a JVM takes longer than most.

    It also has Spark's own Kafka connector, which must work with our broker, and its Avro reader.
    """
    require_tool("java", "mvn")
    folder = tmp_path_factory.mktemp("spark")
    settings = {
        "spark.jars": f"{connector_jars()},{avro_jar()}",
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


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """More time than other tests get: a busy machine takes long to start Spark's processes."""
    for item in items:
        if Path(__file__).parent in item.path.parents and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(400))
