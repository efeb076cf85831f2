"""The records that every client test sends and expects back, the same in every language.

Record number i of a run: what Java, Go and JavaScript programs beside their tests make as well.
"""

from dataclasses import dataclass

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
RECORDS_PER_RUN = 20
# Each codec twice: with and without idempotence.
RECORD_COUNT = 2 * len(CODECS) * RECORDS_PER_RUN
FROM_OFFSET = 57
FROM_TIME_INDEX = 142

CREATE_PARTITIONS = 2
GROWN_PARTITIONS = 4
CREATE_RETENTION_MS = "86400000"
ALTERED_RETENTION_MS = "172800000"


@dataclass(frozen=True)
class Expected:
    """One record, byte for byte."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...]
    timestamp_ms: int


def expected_record(index: int, base_timestamp_ms: int) -> Expected:
    """Every tenth has no key, every tenth (another one) no value: a tombstone."""
    return Expected(
        key=None if index % 10 == 9 else f"key-{index}".encode(),
        value=None if index % 10 == 8 else value_bytes(index),
        headers=(("index", str(index).encode()), ("empty", b"")),
        timestamp_ms=base_timestamp_ms + index * 1000,
    )


def value_bytes(index: int) -> bytes:
    """All byte values occur, and the length tells records apart."""
    return bytes((index * 7 + position) % 256 for position in range(300 + index))


@dataclass(frozen=True)
class Run:
    """What one producer sends, all of it to partition 0."""

    codec: str
    idempotent: bool
    numbers: range
    records: list[Expected]


def runs(base_timestamp_ms: int) -> list[Run]:
    """The producers in the order they send; record numbers are the offsets they must get."""
    kinds = [(codec, idempotent) for idempotent in (False, True) for codec in CODECS]
    made = []
    for at, (codec, idempotent) in enumerate(kinds):
        numbers = range(at * RECORDS_PER_RUN, (at + 1) * RECORDS_PER_RUN)
        records = [expected_record(number, base_timestamp_ms) for number in numbers]
        made.append(Run(codec, idempotent, numbers, records))
    return made
