"""The last segment of a log is lost or emptied, though all of it was synced.

Its offsets are not given to other records. Nothing lay between the last record and the end, so that
whoever read up to the end waited there until somebody appended.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from floodmark.records.batch import iter_headers, read_header
from floodmark.records.record import Record, decode_records, encode_batch
from floodmark.storage.files import RealFiles
from floodmark.storage.log.partition_log import PartitionLog
from floodmark.storage.log_config import LogConfig

NOW_MS = 1_700_000_000_000
KEPT, LOST = 3, 4
END = KEPT + LOST


def open_log(folder: Path, recovery_point: int, *, clean: bool = True) -> PartitionLog:
    return PartitionLog.open(
        RealFiles(),
        folder,
        LogConfig(),
        now_ms=NOW_MS,
        clean=clean,
        recovery_point=recovery_point,
    )


def append(log: PartitionLog, leader_epoch: int) -> None:
    batch = encode_batch([Record(0, NOW_MS, b"k", b"v", [])])
    log.append(batch, read_header(batch), leader_epoch, NOW_MS)


def offsets_read(log: PartitionLog) -> list[int]:
    """Of all records from the first to the end, as a consumer reads them."""
    offsets: list[int] = []
    position = log.log_start_offset
    while position < log.log_end_offset:
        records = log.read(position, 1 << 20, end_offset=log.log_end_offset)
        assert records is not None, f"nothing leads on from offset {position}"
        data = records.read()
        for at, header in iter_headers(data):
            offsets += [record.offset for record in decode_records(data, at)]
            position = header.next_offset
    return offsets


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("lose", [Path.unlink, lambda path: path.write_bytes(b"")])
def test_a_reader_gets_over_a_lost_end(
    tmp_path: Path, lose: Callable[[Path], object], clean: bool
) -> None:
    folder = tmp_path / "t-0"
    log = open_log(folder, 0)
    for number in range(END):
        if number == KEPT:
            log.roll(NOW_MS)
        append(log, leader_epoch=0 if number < KEPT + 2 else 1)
    log.close(NOW_MS)
    lose(folder / f"{KEPT:020d}.log")

    log = open_log(folder, END, clean=clean)
    assert log.log_end_offset == END
    assert offsets_read(log) == list(range(KEPT))
    append(log, leader_epoch=2)
    assert offsets_read(log) == [*range(KEPT), END]
    # After a kill the list of epochs is made of the batches that are there.
    epochs = {0: 0, 1: KEPT + 2, 2: END} if clean else {0: 0, 2: END}
    assert log.leader_epochs.epochs == list(epochs)
    assert log.leader_epochs.start_offsets == list(epochs.values())
    log.close(NOW_MS, clean=False)

    again = open_log(folder, END, clean=False)
    assert offsets_read(again) == [*range(KEPT), END]
    again.close(NOW_MS)
