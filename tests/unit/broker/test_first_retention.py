"""When the broker looks after its logs for the first time: soon, however rarely afterwards."""

from pathlib import Path

from floodmark.testing.broker_thread import BrokerThread
from kit.topics import fill_topic
from kit.waiting import wait_for

RARELY = {"log.retention.check.interval.ms": "3600000", "log.initial.task.delay.ms": "50"}


def test_a_broker_that_does_not_run_for_long_comes_to_its_retention(tmp_path: Path) -> None:
    with BrokerThread(tmp_path) as floodmark:
        floodmark.create_topic("t")
        fill_topic(floodmark.bootstrap_servers, "t", [(None, b"of long ago")], timestamp_ms=1)
    with BrokerThread(tmp_path, RARELY) as floodmark:
        log = floodmark.broker.logs.get("t", 0)
        assert log is not None
        wait_for(lambda: log.log_start_offset == 1)
