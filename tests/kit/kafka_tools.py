"""Apache Kafka's own command line tools, run as Java classes; DumpLogSegments checks files.

`dump_segments` and `verify_segments` also serve the storage tests.
"""

from collections.abc import Iterable
from pathlib import Path

from kit.apache_kafka import tool_command
from kit.jars import KAFKA_3, KAFKA_4
from kit.programs import run_program

_DUMP = {
    KAFKA_3: "kafka.tools.DumpLogSegments",
    KAFKA_4: "org.apache.kafka.tools.DumpLogSegments",
}
# What DumpLogSegments prints about a file that is not as it should be.
_COMPLAINTS = (
    "Mismatches in",
    "Non-consecutive",
    "Found timestamp mismatch",
    "Index timestamp",
    "out of order timestamp",
    "Found invalid",
    "isvalid: false",
    "Invalid",
    "corrupt",
    "Exception",
)


def kafka_tool(main_class: str, *arguments: str, version: str = KAFKA_4) -> str:
    """Run a tool to its end and return what it printed; an exit code other than 0 raises."""
    return run_program(tool_command(version, main_class, *arguments))


def dump_segments(paths: Iterable[Path], *options: str, version: str = KAFKA_4) -> str:
    """What DumpLogSegments prints about .log, .index, .timeindex, .txnindex, .snapshot files."""
    files = ",".join(str(path) for path in paths)
    return kafka_tool(_DUMP[version], *options, "--files", files, version=version)


def verify_segments(folder: Path, version: str = KAFKA_4) -> str:
    """Check all segments and indexes of a partition folder; returns the dump of its records."""
    logs = sorted(folder.glob("*.log"))
    indexes = sorted([*folder.glob("*.index"), *folder.glob("*.timeindex")])
    dump = dump_segments([*logs, *indexes], "--deep-iteration", version=version)
    sanity = dump_segments(indexes, "--index-sanity-check", version=version)
    for complaint in _COMPLAINTS:
        assert complaint not in dump, dump
        assert complaint not in sanity, sanity
    passed = sanity.count("passed sanity check")
    assert passed == len(indexes), sanity
    return dump
