"""`floodmark.pipeline.where`: a condition that also narrows what is fetched.

Users call it on a batch read. Spark has an interface for pushing filters into a data source in
Python, but Spark 4.2 stores the narrowed read in the DataFrame: the next query of the same frame
would silently miss rows. So every condition gets a read of its own here, and Spark applies the
condition as always.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from floodmark.pipeline.datasource.read_limits import Comparison, limits_of
from floodmark.pipeline.errors import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_OPERATORS = {
    "EqualTo": "=",
    "EqualNullSafe": "=",
    "GreaterThan": ">",
    "GreaterThanOrEqual": ">=",
    "LessThan": "<",
    "LessThanOrEqual": "<=",
}
_TURNED = {"=": "=", ">": "<", ">=": "<=", "<": ">", "<=": ">="}
_LIMITS_OPTION = "readLimits"


def where(frame: DataFrame, condition: str | Column) -> DataFrame:
    """Like `frame.where(condition)`, but fetches only what can satisfy it.

    Comparisons of topic, partition, offset and timestamp with constants narrow the read: times from
    below, because later records may be older. `frame` must be a topic as `load()` returned it.
    """
    relation = _relation(frame)
    options = dict(relation.options().asCaseSensitiveMap())
    plan = _java_frame(frame.where(condition)).queryExecution().optimizedPlan()
    limits = limits_of(_comparisons(plan))
    options = {name: value for name, value in options.items() if name != _LIMITS_OPTION}
    reader = frame.sparkSession.read.format("floodmark").options(**options)
    return reader.option(_LIMITS_OPTION, limits.to_text()).load().where(condition)


def _java_frame(frame: DataFrame) -> Any:
    found = getattr(frame, "_jdf", None)
    if found is None:
        raise PipelineError(
            "where() needs Spark's own session, not Spark Connect: use the options "
            "startingTimestamp or startingOffsets, and frame.where"
        )
    return found


def _relation(frame: DataFrame) -> Any:
    plan = _java_frame(frame).queryExecution().analyzed()
    is_ours = _kind(plan) == "DataSourceV2Relation" and plan.table().name() == "floodmark"
    if frame.isStreaming or not is_ours:
        raise PipelineError(
            "where() is for a batch read of topics as load() returned it: call it before other "
            "steps. For a stream use startingTimestamp or startingOffsets, and frame.where"
        )
    return plan


def _kind(node: Any) -> str:
    name: str = node.getClass().getSimpleName()
    return name


def _comparisons(plan: Any) -> Iterator[Comparison]:
    """Those that every row must satisfy. Without a filter over the read there are none."""
    if _kind(plan) == "Filter":
        for part in _parts(plan.condition()):
            found = _comparison(part)
            if found is not None:
                yield found


def _parts(expression: Any) -> Iterator[Any]:
    if _kind(expression) == "And":
        yield from _parts(expression.left())
        yield from _parts(expression.right())
    else:
        yield expression


def _comparison(expression: Any) -> Comparison | None:
    kind = _kind(expression)
    if kind in _OPERATORS:
        left, right = expression.left(), expression.right()
        operator = _OPERATORS[kind]
        if _kind(left) == "Literal":
            left, right, operator = right, left, _TURNED[operator]
        return _known(left, operator, [right])
    if kind == "In":
        listed = expression.list()
        return _known(expression.value(), "=", [listed.apply(i) for i in range(listed.length())])
    return None


def _known(column: Any, operator: str, values: list[Any]) -> Comparison | None:
    """Only of a plain column with constants: a cast, for example, could compare differently."""
    if _kind(column) != "AttributeReference" or any(_kind(v) != "Literal" for v in values):
        return None
    constants = [value.value() for value in values]
    if any(constant is None for constant in constants):
        return None
    plain = tuple(c if isinstance(c, int) else str(c.toString()) for c in constants)
    return Comparison(column.name(), operator, plain)
