"""Log folders: loading, checkpoints, clean stops, failures, locks."""

from __future__ import annotations

import json
from pathlib import Path
from uuid import UUID, uuid4

import pytest

from floodmark.records.batch import read_header
from floodmark.records.record import Record, encode_batch
from floodmark.storage.checkpoints import (
    CLEAN_SHUTDOWN,
    RECOVERY_POINTS,
    MetaProperties,
    read_topic_id,
)
from floodmark.storage.errors import (
    InconsistentTopicId,
    LogDirFailure,
    LogDirLocked,
    StorageError,
)
from floodmark.storage.files import RealFiles
from floodmark.storage.log.partition_log import PartitionLog
from floodmark.storage.log_config import LogConfig
from floodmark.storage.log_dir import LOCK_FILE
from floodmark.storage.log_manager import LogManager

NOW_MS = 1_700_000_000_000
TOPIC_ID = UUID("12345678-1234-4234-8234-123456789abc")


def append(log: PartitionLog, count: int = 1) -> None:
    for _ in range(count):
        batch = encode_batch([Record(0, NOW_MS, b"k", b"v", [])])
        log.append(batch, read_header(batch), 0, NOW_MS)


def started(*log_dirs: Path) -> LogManager:
    manager = LogManager(RealFiles(), log_dirs)
    manager.open_dirs()
    manager.load(manager.found_partitions(), lambda topic: LogConfig(), NOW_MS)
    return manager


def test_logs_are_found_again_after_a_clean_stop(tmp_path: Path) -> None:
    manager = started(tmp_path)
    log = manager.get_or_create("a-b.c", 2, TOPIC_ID, LogConfig(), now_ms=NOW_MS)
    append(log, 5)
    manager.checkpoint_high_watermarks({("a-b.c", 2): 4})
    log.advance_log_start(3)
    manager.close(NOW_MS, broker_epoch=17)
    assert json.loads((tmp_path / ".kafka_cleanshutdown").read_text()) == {
        "version": 0,
        "brokerEpoch": 17,
    }
    recovery_points = (tmp_path / "recovery-point-offset-checkpoint").read_text()
    assert recovery_points == "0\n1\na-b.c 2 5\n"
    assert (tmp_path / "log-start-offset-checkpoint").read_text() == "0\n1\na-b.c 2 3\n"
    assert (tmp_path / "replication-offset-checkpoint").read_text() == "0\n1\na-b.c 2 4\n"
    assert sorted(path.name for path in (tmp_path / "a-b.c-2").iterdir()) == [
        "00000000000000000000.index",
        "00000000000000000000.log",
        "00000000000000000000.timeindex",
        "00000000000000000005.snapshot",
        "leader-epoch-checkpoint",
        "partition.metadata",
    ]

    again = started(tmp_path)
    assert again.was_clean
    assert again.dirs[tmp_path].broker_epoch == 17
    assert not (tmp_path / ".kafka_cleanshutdown").exists()
    loaded = again.get("a-b.c", 2)
    assert loaded is not None
    assert (loaded.log_start_offset, loaded.log_end_offset) == (3, 5)
    assert again.high_watermarks == {("a-b.c", 2): 4}
    assert again.topic_ids == {("a-b.c", 2): TOPIC_ID}
    again.close(NOW_MS, clean=False)
    assert not started(tmp_path).was_clean


def test_partition_metadata_is_written_as_kafka_does(tmp_path: Path) -> None:
    manager = started(tmp_path)
    manager.get_or_create("t", 0, TOPIC_ID, LogConfig(), now_ms=NOW_MS)
    text = (tmp_path / "t-0" / "partition.metadata").read_text()
    assert text == "version: 0\ntopic_id: EjRWeBI0QjSCNBI0VniavA"
    assert read_topic_id(RealFiles(), tmp_path / "t-0") == TOPIC_ID
    manager.close(NOW_MS)


def test_another_topic_of_the_same_name_is_refused(tmp_path: Path) -> None:
    manager = started(tmp_path)
    manager.get_or_create("t", 0, TOPIC_ID, LogConfig(), now_ms=NOW_MS)
    with pytest.raises(InconsistentTopicId):
        manager.get_or_create("t", 0, uuid4(), LogConfig(), now_ms=NOW_MS)
    manager.close(NOW_MS)


def test_new_logs_are_spread_over_the_folders(tmp_path: Path) -> None:
    first, second = tmp_path / "1", tmp_path / "2"
    manager = started(first, second)
    for partition in range(4):
        manager.get_or_create("t", partition, TOPIC_ID, LogConfig(), now_ms=NOW_MS)
    assert len(list(first.glob("t-*"))) == len(list(second.glob("t-*"))) == 2
    manager.close(NOW_MS)


def test_a_failing_folder_takes_only_its_partitions_offline(tmp_path: Path) -> None:
    first, second = tmp_path / "1", tmp_path / "2"
    manager = started(first, second)
    for partition in range(4):
        manager.get_or_create("t", partition, TOPIC_ID, LogConfig(), now_ms=NOW_MS)
    lost = manager.fail_dir(first, "the disk is gone")
    assert len(lost) == 2
    assert len(manager.logs()) == 2
    assert manager.offline_dirs == {first: "the disk is gone"}
    manager.get_or_create("t", 9, TOPIC_ID, LogConfig(), now_ms=NOW_MS)
    assert (second / "t-9").exists()
    manager.close(NOW_MS)
    assert not (first / ".kafka_cleanshutdown").exists()


def test_a_folder_that_cannot_be_made_is_offline_and_none_left_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    manager = LogManager(RealFiles(), [tmp_path / "file" / "logs", tmp_path / "good"])
    manager.open_dirs()
    assert list(manager.offline_dirs) == [tmp_path / "file" / "logs"]
    manager.close(NOW_MS)
    with pytest.raises(StorageError, match="no log folder is usable"):
        LogManager(RealFiles(), [tmp_path / "file" / "logs"]).open_dirs()


def test_two_brokers_do_not_share_a_folder(tmp_path: Path) -> None:
    manager = started(tmp_path)
    with pytest.raises(LogDirLocked):
        started(tmp_path)
    manager.close(NOW_MS)
    started(tmp_path).close(NOW_MS)


def test_a_lock_file_that_was_removed_is_taken_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    manager = started(tmp_path)
    (tmp_path / LOCK_FILE).unlink()
    manager.checkpoint_recovery_points()
    manager.checkpoint_recovery_points()
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    with pytest.raises(LogDirLocked):
        started(tmp_path)
    manager.close(NOW_MS)
    started(tmp_path).close(NOW_MS)


def test_a_broker_leaves_a_folder_that_another_has_taken_after_the_removal_of_the_lock(
    tmp_path: Path,
) -> None:
    manager = started(tmp_path)
    (tmp_path / LOCK_FILE).unlink()
    other = started(tmp_path)
    other.get_or_create("t", 0, TOPIC_ID, LogConfig(), now_ms=NOW_MS)
    other.checkpoint_log_start_offsets()
    other.checkpoint_recovery_points()
    with pytest.raises(LogDirFailure, match="another broker"):
        manager.checkpoint_recovery_points()
    manager.close(NOW_MS)
    assert not (tmp_path / CLEAN_SHUTDOWN).exists(), "the other is at work"
    assert "t 0 0" in (tmp_path / RECOVERY_POINTS).read_text()
    other.close(NOW_MS)


def test_a_topic_with_the_longest_name_is_deleted_and_takes_nothing_with_it(
    tmp_path: Path,
) -> None:
    manager = started(tmp_path)
    name = "t" * 249
    manager.get_or_create(name, 0, TOPIC_ID, LogConfig(), now_ms=NOW_MS)
    folder = manager.delete(name, 0)
    assert folder.is_dir()
    assert folder.name.endswith("-delete")
    manager.get_or_create(name, 0, uuid4(), LogConfig(), now_ms=NOW_MS)
    manager.close(NOW_MS)
    again = LogManager(RealFiles(), [tmp_path])
    again.open_dirs()
    again.set_aside(again.found_partitions())
    assert again.found_partitions() == []
    assert not again.offline_dirs
    again.close(NOW_MS)


def test_deleted_records_stay_deleted_though_their_files_were_not_renamed_in_time(
    tmp_path: Path,
) -> None:
    manager = started(tmp_path)
    log = manager.get_or_create("t", 0, TOPIC_ID, LogConfig(segment_bytes=200), now_ms=NOW_MS)
    append(log, 8)
    first_of_last_segment = log.segments[-1].base_offset
    log.advance_log_start(first_of_last_segment)
    log.detach_oldest(len(log.segments) - 1, NOW_MS)
    manager.close(NOW_MS)
    again = started(tmp_path)
    found = again.get_or_create("t", 0, TOPIC_ID, LogConfig(), now_ms=NOW_MS)
    assert found.log_start_offset == first_of_last_segment
    again.close(NOW_MS)


def test_a_deleted_log_is_gone_even_when_the_process_ends_before_its_removal(
    tmp_path: Path,
) -> None:
    manager = started(tmp_path)
    append(manager.get_or_create("t", 0, TOPIC_ID, LogConfig(), now_ms=NOW_MS))
    folder = manager.delete("t", 0)
    assert folder.name.startswith("t-0.")
    assert folder.name.endswith("-delete")
    assert manager.get("t", 0) is None
    manager.close(NOW_MS)
    again = started(tmp_path)
    assert again.logs() == []
    assert not folder.exists()
    again.close(NOW_MS)


def test_a_kraft_metadata_log_is_left_untouched(tmp_path: Path) -> None:
    foreign = tmp_path / "__cluster_metadata-0"
    foreign.mkdir()
    (foreign / "00000000000000000000.log").write_bytes(b"not ours")
    (foreign / "00000000000000000000.log.deleted").write_bytes(b"not ours either")
    manager = started(tmp_path)
    assert manager.logs() == []
    manager.close(NOW_MS)
    assert (foreign / "00000000000000000000.log").read_bytes() == b"not ours"
    assert (foreign / "00000000000000000000.log.deleted").exists()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "#\n#Sat Jan 01 00:00:00 UTC 2025\nbroker.id=3\nversion=0\ncluster.id=abc-DEF_1\n",
            MetaProperties(0, "abc-DEF_1", 3),
        ),
        (
            "#\nnode.id=7\ndirectory.id=EjRWeBI0QjSCNBI0VniavA\nversion=1\ncluster.id=xyz\n",
            MetaProperties(1, "xyz", 7, TOPIC_ID),
        ),
    ],
)
def test_meta_properties_of_both_versions_are_read(
    tmp_path: Path, text: str, expected: MetaProperties
) -> None:
    (tmp_path / "meta.properties").write_text(text)
    manager = started(tmp_path)
    assert manager.dirs[tmp_path].meta == expected
    manager.write_meta_properties({tmp_path: expected})
    manager.close(NOW_MS)
    again = started(tmp_path)
    assert again.dirs[tmp_path].meta == expected
    again.close(NOW_MS)


def test_a_log_cut_below_its_high_watermark_does_not_get_it_back_after_a_crash(
    tmp_path: Path,
) -> None:
    """As after an unclean election: the old one may lie within a batch of the new leader."""
    manager = started(tmp_path)
    log = manager.get_or_create("t", 0, TOPIC_ID, LogConfig(), now_ms=NOW_MS)
    append(log, 5)
    manager.checkpoint_high_watermarks({("t", 0): 5})
    manager.truncate_to(log, 4, NOW_MS)
    assert (tmp_path / "replication-offset-checkpoint").read_text() == "0\n1\nt 0 4\n"
    manager.close(NOW_MS, clean=False)
    again = started(tmp_path)
    assert again.high_watermarks["t", 0] == 4
    again.close(NOW_MS)


def test_a_log_cut_below_its_start_starts_at_its_new_end(tmp_path: Path) -> None:
    """As after an unclean election, whose leader ends before our records were deleted."""
    manager = started(tmp_path)
    log = manager.get_or_create("t", 0, TOPIC_ID, LogConfig(), now_ms=NOW_MS)
    append(log, 5)
    log.advance_log_start(4)
    manager.checkpoint_log_start_offsets()
    manager.truncate_to(log, 2, NOW_MS)
    assert (log.log_start_offset, log.log_end_offset) == (2, 2)
    append(log, 2)
    manager.close(NOW_MS, clean=False)
    again = started(tmp_path)
    reopened = again.get("t", 0)
    assert reopened is not None
    assert (reopened.log_start_offset, reopened.log_end_offset) == (2, 4)
    again.close(NOW_MS)
