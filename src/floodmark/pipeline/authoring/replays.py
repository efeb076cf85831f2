"""Where outputs started, and where a replay makes them start again.

A file next to an output's checkpoints holds it: `replay` writes it, `building.py` reads it when the
output starts. A replay removes the output's own checkpoint and gives its marks a new name, so that
its batches, which count from zero again, are never taken for those of before.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace

from floodmark.pipeline.datasource.offsets import (
    ADDED_PARTITIONS_OPTION,
    Positions,
    from_document,
    to_document,
)
from floodmark.pipeline.datasource.options import parse_read_options
from floodmark.pipeline.errors import PipelineError
from floodmark.pipeline.spark.atomic_files import AnyPath, write_whole

OUTPUTS_FILE = "outputs.json"
# The options that say where a stream starts.
_STARTING = (
    "startingoffsets",
    "startingtimestamp",
    "startingoffsetsbytimestamp",
    "startingoffsetsbytimestampstrategy",
)


@dataclass(frozen=True)
class OutputRecord:
    """What is known about an output besides Spark's checkpoint."""

    # How often it was replayed.
    generation: int = 0
    # Where the last replay starts, in the form of Spark's checkpoints.
    start: Mapping[str, Mapping[str, int]] | None = None
    # The start that each source declared when the output began, by the source's topics.
    declared: Mapping[str, str] = field(default_factory=dict)
    # The folder of its table, if it writes one.
    table: str | None = None


def read_records(folder: AnyPath) -> dict[str, OutputRecord]:
    path = folder / OUTPUTS_FILE
    if not path.exists():
        return {}
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        return {name: OutputRecord(**record) for name, record in document.items()}
    except (ValueError, TypeError, AttributeError) as error:
        raise PipelineError(f"{path} is damaged ({error}): restore it, or reset") from error


def read_record(folder: AnyPath, output: str) -> OutputRecord:
    return read_records(folder).get(output, OutputRecord())


def write_record(folder: AnyPath, output: str, record: OutputRecord) -> None:
    """Call it only while the checkpoint is locked."""
    records = read_records(folder) | {output: record}
    document = {name: asdict(records[name]) for name in sorted(records)}
    write_whole(folder / OUTPUTS_FILE, json.dumps(document, indent=2) + "\n")


def record_replay(folder: AnyPath, output: str, start: Positions) -> None:
    known = read_record(folder, output)
    start_document = to_document(start)
    record = replace(known, generation=known.generation + 1, start=start_document, declared={})
    write_record(folder, output, record)


def record_drop(folder: AnyPath, output: str) -> None:
    """An output of the same name starts over, with marks of its own."""
    known = read_record(folder, output)
    write_record(folder, output, OutputRecord(generation=known.generation + 1))


def start_replay(options: dict[str, str], start: Positions | None) -> None:
    """Replaces a source's declared start by that of a replay."""
    if start is None:
        return
    subscription = parse_read_options(options, streaming=True).subscription
    own = {p: offset for p, offset in start.items() if subscription.covers(p.topic)}
    if not own:
        return
    for name in [name for name in options if name.lower() in _STARTING]:
        del options[name]
    options["startingOffsets"] = json.dumps(to_document(own))
    options[ADDED_PARTITIONS_OPTION] = "true"


def positions_of(record: OutputRecord) -> Positions | None:
    return None if record.start is None else from_document(record.start)


def declared_start(starting_offsets: str, options: Mapping[str, str]) -> str:
    """A source's starting options, for comparison with those of a later run."""
    given = {"startingoffsets": starting_offsets}
    given |= {name.lower(): value for name, value in options.items()}
    return "; ".join(f"{name}={given[name]}" for name in _STARTING if name in given)


def remember_start(
    folder: AnyPath, output: str, declared: Mapping[str, str], table: str | None
) -> None:
    """Call it when the output begins, while the checkpoint is locked."""
    known = read_record(folder, output)
    wanted = replace(known, declared=dict(declared), table=table)
    if known != wanted:
        write_record(folder, output, wanted)


def changed_starts(folder: AnyPath, output: str, declared: Mapping[str, str]) -> list[str]:
    """The sources that declare another start than when the output began."""
    known = read_record(folder, output).declared
    return [source for source, start in declared.items() if known.get(source, start) != start]
