"""A folder whose topic id no topic has any more, under the name of a topic of today."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

from floodmark.records.record import Record, encode_batch
from floodmark.replication.outcomes import ACKS_ALL
from floodmark.storage.checkpoints import read_topic_id, write_topic_id
from floodmark.storage.files import RealFiles
from floodmark.testing.broker_thread import BrokerThread
from floodmark.wire.errors import ErrorCode

OLD_TOPIC_ID = UUID(int=12345)


async def append(floodmark: BrokerThread) -> tuple[ErrorCode, int]:
    batch = bytes(encode_batch([Record(0, 1, None, b"v", [])]))
    outcome = floodmark.broker.replicas.append(("t", 0), batch, ACKS_ALL)
    return outcome.error_code, outcome.base_offset


def test_it_is_set_aside_and_the_topic_of_today_has_a_folder_of_its_own(tmp_path: Path) -> None:
    with BrokerThread(tmp_path) as floodmark:
        floodmark.create_topic("t")
        assert floodmark.call(append(floodmark)) == (ErrorCode.NONE, 0)
    files = RealFiles()
    topic_id = read_topic_id(files, tmp_path / "t-0")
    write_topic_id(files, tmp_path / "t-0", OLD_TOPIC_ID)
    with BrokerThread(tmp_path) as floodmark:
        assert not floodmark.broker.replicas.offline
        assert floodmark.call(append(floodmark)) == (ErrorCode.NONE, 0)
    assert read_topic_id(files, tmp_path / "t-0") == topic_id
    (stray,) = tmp_path.glob("t-0.*-stray")
    assert read_topic_id(files, stray) == OLD_TOPIC_ID


def test_a_folder_without_an_id_that_nobody_knows_is_left_alone(tmp_path: Path) -> None:
    with BrokerThread(tmp_path):
        pass
    (tmp_path / "other-0").mkdir()
    with BrokerThread(tmp_path):
        pass
    assert (tmp_path / "other-0").is_dir()
    assert not list(tmp_path.glob("*-stray"))


def test_a_folder_that_is_none_of_a_log_is_not_taken_for_a_topic(tmp_path: Path) -> None:
    (tmp_path / "backup-20260101").mkdir()
    (tmp_path / "backup-20260101" / "notes.log").write_text("not a segment")
    with BrokerThread(tmp_path) as floodmark:
        assert not floodmark.broker.services.image.topics


def test_a_second_spelling_of_a_partition_is_left_alone(tmp_path: Path) -> None:
    with BrokerThread(tmp_path) as floodmark:
        floodmark.create_topic("t")
    (tmp_path / "t-00").mkdir()
    (tmp_path / "t-0" / "0.snapshot").write_bytes(b"of somebody else")
    with BrokerThread(tmp_path) as floodmark:
        assert floodmark.call(append(floodmark)) == (ErrorCode.NONE, 0)
    assert (tmp_path / "t-00").is_dir()
