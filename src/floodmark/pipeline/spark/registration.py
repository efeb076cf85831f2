"""Registers the data source with an existing session.

Called by `floodmark.pipeline.register`; `arrow_tasks.py` also asks for the Python. Spark starts a
data source's Python processes with the command that was current when it was registered. The
default, `python3`, may be a different Python, and compiles PySpark at every start (see
`worker_python.py`).
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from pyspark import SparkContext, SparkFiles
from pyspark.sql.datasource import DataSourceRegistration

from floodmark.pipeline.datasource.source import FloodmarkSource
from floodmark.pipeline.spark.worker_python import worker_python

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register_source(spark: SparkSession, environment: Mapping[str, str] = os.environ) -> None:
    context = with_this_python(spark, environment)
    if context is None:
        spark.dataSource.register(FloodmarkSource)
        return
    session = _Override(spark, sparkContext=context)
    DataSourceRegistration(cast("SparkSession", session)).register(FloodmarkSource)


def with_this_python(spark: SparkSession, environment: Mapping[str, str]) -> SparkContext | None:
    """The session's context with this Python as its command; None if Spark's own must be used."""
    # A Spark Connect session has no context: its processes start on the server.
    context: SparkContext | None = getattr(spark, "sparkContext", None)
    if context is None or not _runs_this_python(context, environment):
        return None
    python = worker_python(environment, Path(SparkFiles.getRootDirectory()))
    return cast("SparkContext", _Override(context, pythonExec=python))


def _runs_this_python(context: SparkContext, environment: Mapping[str, str]) -> bool:
    """Whether all processes are on this machine, and the user has not set another Python."""
    if not (context.master or "").startswith("local"):
        return False
    named = environment.get("PYSPARK_PYTHON")
    if named is None:
        return True
    # All names in an environment's folder belong to it, while links lead out of it.
    found, ours = shutil.which(named), Path(sys.executable)
    return found is not None and Path(found).absolute().parent == ours.parent


class _Override:
    """Another object with some attributes replaced.

    Never changes the context itself, because other threads may be using it.
    """

    def __init__(self, target: object, **own: object) -> None:
        self._target = target
        self.__dict__.update(own)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._target, name)
