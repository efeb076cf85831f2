"""Jars that PySpark does not bring: Spark's own Kafka connector, which is the yardstick of our data
source and a client of our broker, its reader of Avro, drivers of databases, and Delta.

Every jar is named here, because the connector's own list of dependencies does not resolve (its
token provider of the same version was never published). One run of Maven fetches them all. Pass
them by `spark.jars`.
"""

from collections.abc import Sequence

from kit.jars import jars

_CONNECTOR = (
    "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
    "org.apache.kafka:kafka-clients:3.9.1",
    "org.apache.commons:commons-pool2:2.12.0",
)
# The newest that there is; it works with Spark 4.2.0.
_AVRO = ("org.apache.spark:spark-avro_2.13:4.1.1",)
_DRIVERS = ("org.postgresql:postgresql:42.7.14", "org.xerial:sqlite-jdbc:3.54.1.0")
_DELTA = (
    "io.delta:delta-spark_4.2_2.13:4.4.0",
    "io.delta:delta-storage:4.4.0",
)
_ANYTHING = "*:*"


def connector_jars() -> str:
    """The connector as `spark.jars` takes it."""
    return _fetched(_CONNECTOR)


def avro_jar() -> str:
    return _fetched(_AVRO)


def driver_jars() -> str:
    return _fetched(_DRIVERS)


def delta_jars() -> str:
    return _fetched(_DELTA)


def _fetched(artifacts: Sequence[str]) -> str:
    folder = jars(*_CONNECTOR, *_AVRO, *_DRIVERS, *_DELTA, without=(_ANYTHING,))
    names = [artifact.split(":") for artifact in artifacts]
    return ",".join(str(folder / f"{name}-{version}.jar") for _, name, version in names)
