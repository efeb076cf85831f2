"""Runs a function over the Arrow batches of each task of a DataFrame.

Called by `batch_writers.py`. Spark's own `mapInArrow` starts Python with the context's command,
which in a user's session may be another Python without Floodmark. Where it is correct, we use our
own.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame
from pyspark.sql.udf import UserDefinedFunction, _wrap_function
from pyspark.util import PythonEvalType

from floodmark.pipeline.spark.registration import with_this_python

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession
    from pyspark.sql.pandas._typing import ArrowMapIterFunction

_COUNTED = "rows BIGINT"


def run_tasks(
    rows: DataFrame, function: ArrowMapIterFunction, environment: Mapping[str, str] = os.environ
) -> None:
    """The function gets a task's batches and returns one with the number of rows."""
    session = rows.sparkSession
    context = with_this_python(session, environment)
    if context is None:
        rows.mapInArrow(function, _COUNTED).collect()
        return
    # The same as mapInArrow, except for the command.
    task = _TaskFunction(session, context, function)
    frame: Any = rows
    column: Any = task(*[rows[name] for name in rows.columns])
    DataFrame(frame._jdf.mapInArrow(column._jc, False, None), session).collect()


class _TaskFunction(UserDefinedFunction):
    """A Spark function created with its own context."""

    def __init__(
        self, session: SparkSession, context: SparkContext, function: ArrowMapIterFunction
    ) -> None:
        kind = PythonEvalType.SQL_MAP_ARROW_ITER_UDF
        super().__init__(function, returnType=_COUNTED, evalType=kind)
        self._session = session
        self._context = context

    def _create_judf(self, func: Callable[..., Any]) -> Any:
        session: Any = self._session
        jvm: Any = self._context._jvm
        return jvm.org.apache.spark.sql.execution.python.UserDefinedPythonFunction(
            self._name,
            _wrap_function(self._context, func, self.returnType),
            session._jsparkSession.parseDataType(self.returnType.json()),
            self.evalType,
            self.deterministic,
        )
