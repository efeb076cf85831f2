"""A header that the disk has changed, in a segment that no recovery looks at any more."""

from __future__ import annotations

import shutil
from pathlib import Path

from floodmark.records.record import Record, encode_batch
from floodmark.replication.fetch_reads import FetchLimits
from floodmark.replication.fetch_sessions import FetchTarget
from floodmark.replication.outcomes import ACKS_ALL, Isolation
from floodmark.testing.broker_thread import BrokerThread
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from fuzz_kit.raw_client import RawClient
from kit.flushed import NEVER_FLUSHED

MAGIC_POSITION = 16


async def fill(floodmark: BrokerThread) -> None:
    """Two segments of t-0, and one batch in u-0."""
    replicas = floodmark.broker.replicas
    for timestamp in range(1, 6):
        assert replicas.append(("t", 0), batch(timestamp), ACKS_ALL).error_code is ErrorCode.NONE
    replicas.find(("t", 0)).log.roll(floodmark.broker.clock.now_ms())
    replicas.append(("t", 0), batch(6), ACKS_ALL)
    replicas.append(("u", 0), batch(1), ACKS_ALL)


async def fetch(floodmark: BrokerThread, offsets: dict[str, int]) -> list[ErrorCode]:
    targets = [((t, 0), FetchTarget(t, 0, offset, 1000)) for t, offset in offsets.items()]
    limits = FetchLimits(1, 1000, 0, Isolation.READ_UNCOMMITTED)
    return [outcome.error_code for outcome in floodmark.broker.replicas.fetch(targets, limits)]


def batch(timestamp: int) -> bytes:
    return bytes(encode_batch([Record(0, timestamp, b"k", b"v", [])]))


def break_second_batch(folder: Path) -> None:
    with (folder / "00000000000000000000.log").open("r+b") as file:
        file.seek(len(batch(1)) + MAGIC_POSITION)
        file.write(b"\x07")


def test_a_read_of_it_is_answered_as_corrupt_and_others_are_served(tmp_path: Path):
    with BrokerThread(tmp_path, NEVER_FLUSHED) as floodmark:
        floodmark.create_topic("t")
        floodmark.create_topic("u")
        floodmark.call(fill(floodmark))
        break_second_batch(tmp_path / "t-0")
        codes = floodmark.call(fetch(floodmark, {"u": 0, "t": 2}))
        assert codes == [ErrorCode.NONE, ErrorCode.CORRUPT_MESSAGE]
        request = ListOffsetsRequest(
            topics=[
                ListOffsetsTopic(name=name, partitions=[ListOffsetsPartition(timestamp=timestamp)])
                for name, timestamp in (("t", 4), ("u", 1))
            ]
        )
        with RawClient(floodmark.bootstrap_servers) as client:
            topics = client.ask(request, 7).topics
        codes = [topic.partitions[0].error_code for topic in topics]
        assert codes == [ErrorCode.CORRUPT_MESSAGE, ErrorCode.NONE]


def test_the_rest_of_that_log_is_served_when_producer_snapshots_are_lost(tmp_path: Path):
    killed = tmp_path / "killed"
    with BrokerThread(tmp_path / "served") as floodmark:
        floodmark.create_topic("t")
        floodmark.create_topic("u")
        floodmark.call(fill(floodmark))
        shutil.copytree(tmp_path / "served", killed)
    break_second_batch(killed / "t-0")
    for snapshot in (killed / "t-0").glob("*.snapshot"):
        snapshot.write_bytes(b"")
    (killed / "recovery-point-offset-checkpoint").write_text("0\n1\nt 0 6\n")
    before = (killed / "t-0" / "00000000000000000000.log").read_bytes()

    with BrokerThread(killed) as floodmark:
        assert not floodmark.broker.replicas.offline
        assert floodmark.call(fetch(floodmark, {"u": 0, "t": 0})) == [ErrorCode.NONE] * 2
        assert floodmark.call(fetch(floodmark, {"t": 1})) == [ErrorCode.CORRUPT_MESSAGE]
        assert floodmark.call(fetch(floodmark, {"t": 2})) == [ErrorCode.NONE]
    assert (killed / "t-0" / "00000000000000000000.log").read_bytes() == before
