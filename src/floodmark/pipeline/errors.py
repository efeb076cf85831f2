"""Errors of a pipeline, in words for its author.

Raised on the driver and in Spark's Python workers. Spark wraps a worker's exceptions in long
traces; `short_text` extracts the message, so that the runner can show it alone.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from floodmark.client.cluster.view import TopicPartition


class PipelineError(Exception):
    """Says what happened, why, and what to do next."""


class OptionError(PipelineError):
    """An option of the data source has an invalid value."""


class DataLossError(PipelineError):
    """Records that the query still needs are gone, and `failOnDataLoss` says to stop."""


def offsets_lost(partition: TopicPartition, start: int, end: int, why: str) -> DataLossError:
    return DataLossError(
        f"offsets {start} to {end - 1} of {partition} cannot be read: {why} (retention, or the "
        "topic was recreated). Set failOnDataLoss to false to continue without them"
    )


class ExactlyOnceError(PipelineError):
    """A repeated batch cannot be proven identical to the one written before."""


_OURS = re.compile(
    r"floodmark\.(?:pipeline\.errors|client\.errors)\.\w+: (?P<text>.+?)"
    r"(?=\n\s*(?:at |\n|$)|\n\tat|\nDriver stacktrace|\nJVM stacktrace|\Z)",
    re.DOTALL,
)


def root_cause(text: str) -> str | None:
    """Our own message inside a Spark exception's text; None if the cause is not ours."""
    found = _OURS.findall(text)
    return found[-1].partition(" SQLSTATE:")[0].strip() if found else None


_TRACE = re.compile(
    r"Traceback \(most recent call last\):\n(?P<frames>(?:[ ]+.*\n)+)(?P<error>\S.*)"
)
# How Java's exception follows py4j's own, which says nothing.
_JAVA_CALL = re.compile(r"(?:py4j\.protocol\.)?Py4JJavaError: An error occurred while calling")
_JAVA_ERROR = re.compile(r"(?m)^: (?P<error>\S.*(?:\n(?!\s+at |Caused by).*)*)")
_FRAME = re.compile(r'  File "(?P<file>.+)", line (?P<line>\d+), in (?P<function>\S+)')


# Frames that do not help an author.
_MACHINERY = ("/pyspark/", "/pyspark.zip/", "/py4j/", "/floodmark/pipeline/", "/contextlib.py")


def python_cause(text: str) -> str | None:
    """The Python exception and the author's line; None without a Python trace."""
    traces = list(_TRACE.finditer(text))
    if not traces:
        return None
    last = traces[-1]
    cause = last["error"].removeprefix("pyspark.errors.exceptions.captured.")
    if _JAVA_CALL.match(cause) and (java := _JAVA_ERROR.search(text, last.end())):
        cause = java_cause(java["error"] + text[java.end() :])
    cause = cause.partition(" SQLSTATE:")[0]
    for frame in reversed(list(_FRAME.finditer(last["frames"]))):
        if not any(part in frame["file"] for part in _MACHINERY):
            file = frame["file"].rpartition("/")[2]
            return f"{cause} ({file}:{frame['line']}, in {frame['function']})"
    return cause


_CAUSED_BY = re.compile(r"(?m)^Caused by: (?P<error>.*(?:\n(?!\s+at |Caused by|\s*\.\.\.).*)*)")
# What Spark puts before the exception of a task or of a query.
_AROUND = re.compile(
    r"^(?:\[STREAM_FAILED\] Query \[.*?\] terminated with exception: )?"
    r"(?:(?:org\.apache\.spark\.SparkException: )?Job aborted due to stage failure: .*?"
    r"most recent failure: Lost task .*?\): )?",
    re.DOTALL,
)
_PACKAGE = re.compile(r"^(?:[a-z_][\w$]*\.)+(?=[A-Z][\w$]*(?:Exception|Error)\b)")


def java_cause(text: str) -> str:
    """The innermost Java exception of a trace, without its stack and package."""
    causes = list(_CAUSED_BY.finditer(text))
    found = causes[-1]["error"] if causes else _AROUND.sub("", text)
    lines = [line for line in found.splitlines() if line.strip()]
    kept: list[str] = []
    for line in lines:
        if kept and line.startswith(_APPENDIX):
            break
        kept.append(line.strip())
    return _PACKAGE.sub("", "\n".join(kept))


# How Spark's additions to messages start: plans, traces, the state of the query.
_APPENDIX = (
    *("JVM stacktrace", "Driver stacktrace", "=== Streaming Query", "== DataFrame", "Caused by:"),
    *("'", "+-", "\tat ", "  at ", "\t... "),
)


def short_text(error: BaseException) -> str:
    """Our own message if there is one, the author's exception, or just Spark's message."""
    java_exception = getattr(error, "java_exception", None)
    text = str(error)
    if java_exception is not None:
        # Many Java exceptions say everything with their class.
        text = str(java_exception.getMessage() or java_exception.toString())
    cause = root_cause(text) or python_cause(text)
    if cause is not None:
        return cause
    lines: list[str] = []
    for line in text.splitlines():
        if lines and line.startswith(_APPENDIX):
            break
        message, is_last, _ = line.partition(" SQLSTATE")
        lines.append(message)
        # A plan follows the semicolon.
        if is_last or line.endswith(";"):
            break
    return "\n".join(line for line in lines if line.strip()).rstrip(";: ") or type(error).__name__


# The package is not on an index yet, so its name alone would not install it.
INSTALL_HINT = (
    "install Floodmark with its extra `spark`: in a checkout `make wheel`, then "
    'pip install "$(ls dist/floodmark-*.whl)[spark]"'
)
