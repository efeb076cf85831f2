"""What can go wrong in a pipeline, in words for its author.

Raised on the driver and in Spark's Python workers. Spark wraps what a worker raises into long
traces; `root_cause` finds our sentence in them, so that the runner can show it alone.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from floodmark.client.view import TopicPartition


class PipelineError(Exception):
    """Says what happened, why, and what to do next."""


class OptionError(PipelineError):
    """An option of the data source has a value that cannot be used."""


class DataLossError(PipelineError):
    """Records that the query still needed are gone, and `failOnDataLoss` says to stop."""


def offsets_lost(partition: TopicPartition, start: int, end: int, why: str) -> DataLossError:
    return DataLossError(
        f"offsets {start} to {end - 1} of {partition} cannot be read: {why} (retention, or the "
        "topic was made anew). Set failOnDataLoss to false to go on without them"
    )


class ExactlyOnceError(PipelineError):
    """A repeated batch cannot be proven to be the same as the one that was written before."""


_OURS = re.compile(
    r"floodmark\.(?:pipeline\.errors|client\.errors)\.\w+: (?P<text>.+?)"
    r"(?=\n\s*(?:at |\n|$)|\n\tat|\nDriver stacktrace|\nJVM stacktrace|\Z)",
    re.DOTALL,
)


def root_cause(text: str) -> str | None:
    """Our own message inside the text of a Spark exception; None when the cause is not ours."""
    found = _OURS.findall(text)
    return found[-1].partition(" SQLSTATE:")[0].strip() if found else None


# The package is on no index yet, so its name alone would install nothing.
INSTALL_HINT = (
    "install Floodmark with its extra `spark`: in a checkout `make wheel`, then "
    'pip install "$(ls dist/floodmark-*.whl)[spark]"'
)
