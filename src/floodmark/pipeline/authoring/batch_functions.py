"""An author's function of a batch: what it reads, and how it is called.

Called by `building.py` and `targets.py` for `@pipeline.batch_sink()`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from floodmark.pipeline.authoring.declared import DeclarationError, Output

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from floodmark.pipeline.authoring.declarations import Pipeline

BATCH_ID = "batch_id"
QUERY_ID = "query_id"


def batch_input(pipeline: Pipeline, output: Output) -> str:
    """The one source or view whose batches the function gets."""
    names = [
        name
        for name, parameter in inspect.signature(output.function).parameters.items()
        if name not in (BATCH_ID, QUERY_ID) and parameter.default is inspect.Parameter.empty
    ]
    known = [*pipeline.sources, *pipeline.views]
    if len(names) != 1 or names[0] not in known:
        what = "no source or view" if not names else ", ".join(names)
        raise DeclarationError(
            output.place,
            f"{output.name} is a function of batches and asks for {what}: name exactly one source "
            f"or view (known: {', '.join(known) or 'none declared'}), and {BATCH_ID} or {QUERY_ID} "
            "if needed. Join or select in a view",
        )
    return names[0]


def batch_function(output: Output, query_id: str) -> Callable[[DataFrame, int], None]:
    """The author's function as `foreachBatch` calls it."""
    parameters = inspect.signature(output.function).parameters
    known = {BATCH_ID, QUERY_ID}
    rows_name = next(name for name in parameters if name not in known)
    wanted = known & set(parameters)

    def write_batch(rows: DataFrame, batch: int) -> None:
        given: dict[str, Any] = {BATCH_ID: batch, QUERY_ID: query_id}
        seen = _Seen(rows)
        output.function(**{rows_name: seen.rows, **{name: given[name] for name in wanted}})
        seen.finish()

    return write_batch


class _Seen:
    """Runs a batch that the author's function did not read.

    State stores commit when their rows are read. A function that recognizes a repeated batch and
    returns would otherwise leave the state of the next batch behind.
    """

    def __init__(self, rows: DataFrame) -> None:
        from pyspark.sql import Observation
        from pyspark.sql import functions as F

        self._observation = Observation()
        self.rows = rows.observe(self._observation, F.count(F.lit(1)).alias("rows"))

    def finish(self) -> None:
        observation: Any = self._observation
        if not observation._jo.future().isCompleted():
            self.rows.write.format("noop").mode("overwrite").save()
