"""A Spark session for pipelines: quiet, with the settings that exactly once needs.

Called by the runner, `floodmark pipeline check` and the demo.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from floodmark.pipeline.errors import INSTALL_HINT, PipelineError, short_text
from floodmark.pipeline.spark.java import java_home, machine_has_java
from floodmark.pipeline.spark.worker_python import worker_python

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DEFAULT_MASTER = "local[2]"
_LOCAL = re.compile(r"local|local\[.+\]|local-cluster\[.+\]")
_CLUSTER = re.compile(r"spark://.+|yarn|k8s://.+")

# A repeated batch must be split as before, so nothing may change the number of tasks.
_PINNED = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.adaptive.streaming.stateless.enabled": "false",
}
_DEFAULTS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "1g",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
}

_JAVA_OPTIONS = "spark.driver.extraJavaOptions"
_SHORT = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]

# They print a JSON line with the JVM's stack for every exception, which we report anyway.
_CHATTY = ("DataFrameQueryContextLogger", "SQLQueryContextLogger")

_LOGGING = """rootLogger.level = {level}
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{{HH:mm:ss}} %p %c{{1}}: %m%n
"""


def check_machine() -> None:
    """Reports what Spark lacks on this machine, before anything else starts."""
    check_pyspark()
    machine_has_java(os.environ)


def check_pyspark() -> None:
    for name in ("pyspark", "pyarrow", "pandas"):
        if find_spec(name) is None:
            raise PipelineError(f"pipelines need {name}, which is not installed: {INSTALL_HINT}")


@contextmanager
def spark_session(
    name: str,
    *,
    master: str | None = None,
    shuffle_partitions: int = 2,
    settings: Mapping[str, str] | None = None,
    log_level: str = "OFF",
    is_short: bool = False,
) -> Iterator[SparkSession]:
    """A session for a block. Spark and its JVM are gone afterwards.

    `is_short` makes the JVM start fast and compile little, for runs of a minute or two.
    """
    check_pyspark()
    from pyspark.sql import SparkSession

    master = master or DEFAULT_MASTER
    is_local = _LOCAL.fullmatch(master) is not None
    if not is_local and not _CLUSTER.fullmatch(master):
        raise PipelineError(
            f"{master} is not a valid Spark master: use local[2], spark://host:7077, yarn or "
            "k8s://https://host"
        )
    with (
        tempfile.TemporaryDirectory(prefix="floodmark-spark-") as folder,
        environment(_needed(Path(folder), is_local=is_local)),
        _silenced(_CHATTY if log_level == "OFF" else ()),
    ):
        logging = Path(folder) / "log4j2.properties"
        logging.write_text(_LOGGING.format(level=log_level))
        builder = SparkSession.builder.appName(name).master(master)
        given = dict(settings or {})
        flags = [f"-Dlog4j2.configurationFile=file:{logging}", *(_SHORT if is_short else [])]
        flags.append(given.pop(_JAVA_OPTIONS, ""))
        builder = builder.config(_JAVA_OPTIONS, " ".join(flags).strip())
        if is_local:
            # A laptop that changes networks must not lose its own driver.
            builder = builder.config("spark.driver.host", "127.0.0.1")
            builder = builder.config("spark.driver.bindAddress", "127.0.0.1")
        partitions = {"spark.sql.shuffle.partitions": str(shuffle_partitions)}
        for key, value in {**_DEFAULTS, **partitions, **given, **_PINNED}.items():
            builder = builder.config(key, value)
        session = _create(builder, master)
        try:
            yield session
        finally:
            _stop(session)


def _needed(scratch: Path, *, is_local: bool) -> dict[str, str]:
    """The environment variables for starting Spark."""
    python = worker_python(os.environ, scratch) if is_local else sys.executable
    variables = {
        # Tasks use the first; Spark's own calls to a data source use the second.
        name: os.environ.get(name, python)
        for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON")
    }
    home = java_home(os.environ, scratch)
    return variables if home is None else variables | {"JAVA_HOME": home}


@contextmanager
def environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Sets variables for a block. Some name files that are gone afterwards."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@contextmanager
def _silenced(names: Sequence[str]) -> Iterator[None]:
    from pyspark.logger import PySparkLogger

    loggers = [PySparkLogger.getLogger(name) for name in names]
    for logger in loggers:
        logger.disabled = True
    try:
        yield
    finally:
        for logger in loggers:
            logger.disabled = False


def _create(builder: SparkSession.Builder, master: str) -> SparkSession:
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        return builder.getOrCreate()
    except (PySparkException, Py4JError, OSError) as error:
        why = short_text(error).splitlines()[0].rstrip(".")
        if "stopped SparkContext" in why:
            why = "there was no response"
        raise PipelineError(
            f"Spark did not start on {master}: {why}. Check the address "
            "of the cluster and the Spark settings, or remove them"
        ) from error


def _stop(session: SparkSession) -> None:
    """Also ends the JVM, which Spark would leave running until the Python process ends."""
    gateway = session.sparkContext._gateway
    session.stop()
    if gateway is not None:
        process = getattr(gateway, "proc", None)
        gateway.shutdown()
        if process is not None:
            process.stdin.close()
            process.wait(timeout=30)
    from pyspark import SparkContext

    # Otherwise the next session of this process would talk to the JVM that is gone.
    SparkContext._gateway = None
    SparkContext._jvm = None
