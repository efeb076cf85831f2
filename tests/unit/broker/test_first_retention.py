"""When the broker looks after its logs for the first time: soon, however rarely afterwards."""

from pathlib import Path

from floodmark.storage.files import Buffer, RealFiles
from floodmark.testing.broker_thread import BrokerThread
from kit.topics import fill_topic
from kit.waiting import wait_for

RARELY = {"log.retention.check.interval.ms": "3600000", "log.initial.task.delay.ms": "50"}
PARTITIONS = 5


class CountingFiles(RealFiles):
    def __init__(self) -> None:
        self.written: list[str] = []

    def write_file_atomic(self, path: Path, data: Buffer, *, sync: bool = True) -> None:
        self.written.append(path.name)
        super().write_file_atomic(path, data, sync=sync)


def test_a_broker_that_does_not_run_for_long_comes_to_its_retention(tmp_path: Path) -> None:
    with BrokerThread(tmp_path) as floodmark:
        floodmark.create_topic("t")
        fill_topic(floodmark.bootstrap_servers, "t", [(None, b"of long ago")], timestamp_ms=1)
    with BrokerThread(tmp_path, RARELY) as floodmark:
        log = floodmark.broker.logs.get("t", 0)
        assert log is not None
        wait_for(lambda: log.log_start_offset == 1)


def test_the_log_starts_of_all_partitions_become_durable_in_one_write(tmp_path: Path) -> None:
    """One write per partition would take minutes when thousands are due at once."""
    with BrokerThread(tmp_path) as floodmark:
        floodmark.create_topic("t", partitions=PARTITIONS)
        for partition in range(PARTITIONS):
            old = [(None, b"of long ago")]
            fill_topic(floodmark.bootstrap_servers, "t", old, partition=partition, timestamp_ms=1)
    files = CountingFiles()
    with BrokerThread(tmp_path, RARELY, files=files) as floodmark:
        logs = [floodmark.broker.logs.get("t", partition) for partition in range(PARTITIONS)]
        wait_for(lambda: all(log is not None and log.segments[0].base_offset for log in logs))
        # The other one comes from the task that writes them regularly.
        assert 1 <= files.written.count("log-start-offset-checkpoint") <= 2
