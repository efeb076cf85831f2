"""What a broker with a failing log folder, or a full disk, once did."""

from __future__ import annotations

from pathlib import Path

from floodmark.records.record import Record, encode_batch
from floodmark.replication.replica import ACKS_ALL
from floodmark.testing.broker_thread import BrokerThread
from floodmark.wire.errors import ErrorCode


async def append(floodmark: BrokerThread, topic: str, partition: int) -> ErrorCode:
    batch = bytes(encode_batch([Record(0, 1, b"k", b"v", [])]))
    return floodmark.broker.replicas.append((topic, partition), batch, ACKS_ALL).error_code


def test_partitions_of_a_folder_that_is_offline_stay_offline_until_it_is_back(tmp_path: Path):
    first, second = tmp_path / "a", tmp_path / "b"
    settings = {"log.dirs": f"{first},{second}"}
    with BrokerThread(tmp_path, settings) as floodmark:
        floodmark.create_topic("t", partitions=4)
        for partition in range(4):
            assert floodmark.call(append(floodmark, "t", partition)) is ErrorCode.NONE
    lost = {("t", int(path.name.removeprefix("t-"))) for path in second.glob("t-*")}
    assert lost
    checkpoint = second / "recovery-point-offset-checkpoint"
    checkpoint.write_text("garbage\n")

    with BrokerThread(tmp_path, settings) as floodmark:
        assert floodmark.broker.replicas.offline == lost
        floodmark.create_topic("new")
        assert floodmark.call(append(floodmark, "new", 0)) is ErrorCode.NONE
    checkpoint.unlink()

    with BrokerThread(tmp_path, settings) as floodmark:
        ends = {r.key: r.log.log_end_offset for r in floodmark.broker.replicas.replicas}
        assert ends == {("new", 0): 1, **{("t", partition): 1 for partition in range(4)}}
