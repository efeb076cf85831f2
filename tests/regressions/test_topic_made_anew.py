"""A topic that is deleted and made again in one step of the controller, on a slow disk.

The name led to the new topic at once, and from its 33rd partition on still to the old logs: what
was acknowledged there went with them.
"""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from floodmark.broker.partitions import HANDLED_TOGETHER, Partitions
from floodmark.controller.topics import NewTopic, TopicRef
from floodmark.records.record import Record, encode_batch
from floodmark.replication.outcomes import ACKS_ALL
from floodmark.storage.errors import StorageError
from floodmark.storage.log.partition_log import PartitionLog
from floodmark.testing.broker_thread import BrokerThread
from floodmark.wire.errors import ErrorCode
from kit.waiting import wait_for

LAST = HANDLED_TOGETHER


async def append(floodmark: BrokerThread) -> ErrorCode:
    batch = bytes(encode_batch([Record(0, 1, None, b"v", [])]))
    return floodmark.broker.replicas.append(("t", LAST), batch, ACKS_ALL).error_code


async def make_anew(floodmark: BrokerThread) -> None:
    controller = floodmark.broker.controller
    await asyncio.gather(
        controller.delete_topics([TopicRef(name="t")]),
        controller.create_topics([NewTopic("t", LAST + 1)], validate_only=False),
    )


def test_nothing_is_acknowledged_into_a_log_that_is_being_removed(
    floodmark: BrokerThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    floodmark.create_topic("t", LAST + 1)
    assert floodmark.call(append(floodmark)) is ErrorCode.NONE
    image = floodmark.broker.services.image
    old_id = image.topics["t"].topic_id
    may_rename = threading.Event()
    rename = Partitions._rename

    def slowly(
        self: Partitions, logs: list[PartitionLog]
    ) -> list[tuple[PartitionLog, Path | StorageError]]:
        assert may_rename.wait(30)
        return rename(self, logs)

    monkeypatch.setattr(Partitions, "_rename", slowly)
    with ThreadPoolExecutor(1) as thread:
        change = thread.submit(floodmark.call, make_anew(floodmark))
        wait_for(lambda: floodmark.broker.services.image.topics["t"].topic_id != old_id)
        assert floodmark.call(append(floodmark)) is ErrorCode.NOT_LEADER_OR_FOLLOWER
        may_rename.set()
        change.result(30)
    assert floodmark.call(append(floodmark)) is ErrorCode.NONE
    log = floodmark.broker.logs.get("t", LAST)
    assert log is not None
    assert log.log_end_offset == 1
