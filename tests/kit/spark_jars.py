"""Jars that PySpark does not bring: Spark's own Kafka connector, which is the yardstick of our data
source and a client of our broker, and its reader of Avro.

The jars are named one by one, because the connector's own list of dependencies does not resolve
(its token provider of the same version was never published). Pass them by `spark.jars`.
"""

import subprocess
from collections.abc import Sequence
from pathlib import Path

from kit.jars import cache_lock

_ARTIFACTS = (
    "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
    "org.apache.kafka:kafka-clients:3.9.1",
    "org.apache.commons:commons-pool2:2.12.0",
)
# The newest that there is; it works with Spark 4.2.0.
_AVRO = ("org.apache.spark:spark-avro_2.13:4.1.1",)


def connector_jars() -> str:
    """The connector as `spark.jars` takes it."""
    return _fetched(_ARTIFACTS)


def avro_jar() -> str:
    return _fetched(_AVRO)


def _fetched(artifacts: Sequence[str]) -> str:
    with cache_lock("spark-connector") as folder:
        for artifact in artifacts:
            if not _jar(folder, artifact).exists():
                _copy(artifact, folder)
    return ",".join(str(_jar(folder, artifact)) for artifact in artifacts)


def _jar(folder: Path, artifact: str) -> Path:
    _, name, version = artifact.split(":")
    return folder / f"{name}-{version}.jar"


def _copy(artifact: str, folder: Path) -> None:
    command = ["mvn", "-q", "-B", "dependency:copy", f"-Dartifact={artifact}"]
    command += [f"-DoutputDirectory={folder}", "-Dmdep.useBaseVersion=true"]
    outcome = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    if outcome.returncode != 0:
        raise RuntimeError(f"Maven could not fetch {artifact}:\n{outcome.stdout}")
