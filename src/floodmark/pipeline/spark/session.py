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
from floodmark.pipeline.spark.surroundings import is_submitted, surrounding_settings
from floodmark.pipeline.spark.worker_python import worker_python

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DEFAULT_MASTER = "local[2]"
DEFAULT_SHUFFLE_PARTITIONS = 2
_SHUFFLE = "spark.sql.shuffle.partitions"
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
    shuffle_partitions: int = DEFAULT_SHUFFLE_PARTITIONS,
    settings: Mapping[str, str] | None = None,
    log_level: str | None = None,
    is_short: bool = False,
) -> Iterator[SparkSession]:
    """A session for a block. Spark and its JVM are gone afterwards, unless spark-submit owns them.

    Settings that the surrounding Spark has (spark-submit, spark-defaults.conf) replace our
    defaults. `settings` and a `master` replace both. `is_short` makes the JVM start fast and
    compile little, for runs of a minute or two.
    """
    check_pyspark()
    given = dict(settings or {})
    refuse_changed_pins(given)
    around = surrounding_settings(os.environ)
    master = master or given.pop("spark.master", None) or around.get("spark.master")
    master = master or DEFAULT_MASTER
    is_local = check_master(master)
    is_owner = not is_submitted(os.environ)
    with (
        tempfile.TemporaryDirectory(prefix="floodmark-spark-") as folder,
        environment(_needed(Path(folder), {**around, **given}, is_local=is_local)),
        _silenced(_CHATTY if (log_level or "OFF") == "OFF" else ()),
    ):
        wanted = _settings(around, given, shuffle_partitions, is_local=is_local)
        if is_owner:
            flags = _java_flags(Path(folder), log_level or "OFF", is_short=is_short)
            flags.append(given.get(_JAVA_OPTIONS) or around.get(_JAVA_OPTIONS) or "")
            wanted[_JAVA_OPTIONS] = " ".join(flags).strip()
        session = _create(name, master, wanted, around)
        if not is_owner and log_level is not None:
            session.sparkContext.setLogLevel(log_level)
        if not (is_local and is_owner):
            register_source(session)
        try:
            yield session
        finally:
            _stop(session, is_owner=is_owner)


def register_source(session: SparkSession) -> None:
    """Spark finds the data source by itself only with the Python that its JVM was started with."""
    # Imported late: it loads all of PySpark.
    from floodmark.pipeline.spark import registration

    registration.register_source(session)


def check_master(master: str) -> bool:
    """Whether a valid master is on this machine."""
    is_local = _LOCAL.fullmatch(master) is not None
    if not is_local and not _CLUSTER.fullmatch(master):
        raise PipelineError(
            f"{master} is not a valid Spark master: use local[2], spark://host:7077, yarn or "
            "k8s://https://host"
        )
    return is_local


def refuse_changed_pins(given: Mapping[str, str]) -> None:
    for name, value in _PINNED.items():
        if given.get(name, value).lower() != value:
            raise PipelineError(
                f"{name}={given[name]} cannot be honoured: a repeated batch must be split as "
                "before, or rows would be lost or doubled. Remove the setting"
            )


def _settings(
    around: Mapping[str, str], given: Mapping[str, str], shuffle_partitions: int, *, is_local: bool
) -> dict[str, str]:
    """What to set beyond the surrounding settings, which Spark knows already."""
    defaults = dict(_DEFAULTS)
    if is_local:
        # A laptop that changes networks must not lose its own driver.
        defaults |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    wanted = {name: value for name, value in defaults.items() if name not in around}
    if shuffle_partitions != DEFAULT_SHUFFLE_PARTITIONS or _SHUFFLE not in around:
        wanted[_SHUFFLE] = str(shuffle_partitions)
    return {**wanted, **given, **_PINNED}


def _java_flags(folder: Path, log_level: str, *, is_short: bool) -> list[str]:
    logging = folder / "log4j2.properties"
    logging.write_text(_LOGGING.format(level=log_level))
    return [f"-Dlog4j2.configurationFile=file:{logging}", *(_SHORT if is_short else [])]


def _needed(scratch: Path, settings: Mapping[str, str], *, is_local: bool) -> dict[str, str]:
    """The environment variables for starting Spark."""
    ours = worker_python(os.environ, scratch) if is_local else sys.executable
    tasks = os.environ.get("PYSPARK_PYTHON") or settings.get("spark.pyspark.python") or ours
    planning = os.environ.get("PYSPARK_DRIVER_PYTHON", ours)
    if not is_local:
        _check_python(tasks)
        # Tasks that read from a data source use the command that has planned the read.
        planning = tasks
    variables = {"PYSPARK_PYTHON": tasks, "PYSPARK_DRIVER_PYTHON": planning}
    if is_submitted(os.environ):
        return variables
    home = java_home(os.environ, scratch)
    return variables if home is None else variables | {"JAVA_HOME": home}


def _check_python(python: str) -> None:
    """Spark starts the workers' Python by the same command on the driver, to plan reads."""
    if "/" in python and not Path(python).exists():
        raise PipelineError(
            f"the workers' Python, {python}, does not exist on this machine, where Spark plans "
            "reads with it: run `floodmark pipeline submit`, or run in the folder that "
            "`floodmark pipeline package` has filled"
        )


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


def _create(
    name: str, master: str, settings: Mapping[str, str], around: Mapping[str, str]
) -> SparkSession:
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(master)
    if "spark.app.name" not in around or not is_submitted(os.environ):
        builder = builder.appName(name)
    for key, value in settings.items():
        builder = builder.config(key, value)
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


def _stop(session: SparkSession, *, is_owner: bool) -> None:
    """Also ends a JVM of our own, which Spark would leave running until the Python process ends."""
    gateway = session.sparkContext._gateway
    session.stop()
    if not is_owner:
        return
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
