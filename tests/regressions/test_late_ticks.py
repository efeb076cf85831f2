"""A broker that stood still reads what came meanwhile before it expels anybody."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from floodmark.wire.messages.find_coordinator import FindCoordinatorRequest
from floodmark.wire.messages.heartbeat import HeartbeatRequest
from floodmark.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from floodmark.wire.messages.sync_group import SyncGroupRequest
from fuzz_kit.raw_client import RawClient, answer_of, request_bytes
from kit.broker import Broker, floodmark_broker
from kit.waiting import wait_for

SESSION_MS = 1000
STOPPED_S = 1.5
GROUPS = 5
"""Timers of one moment: not only the first of them has to wait."""

SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "1",
    "group.min.session.timeout.ms": str(SESSION_MS),
    "group.consumer.min.session.timeout.ms": str(SESSION_MS),
    "group.consumer.session.timeout.ms": str(SESSION_MS),
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "300",
}


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with floodmark_broker(tmp_path, SETTINGS) as broker:
        yield broker


class ClassicMember:
    version = 3

    def __init__(self, bootstrap: str, group: str) -> None:
        self.client = RawClient(bootstrap)
        self._group = group
        protocols = [JoinGroupRequestProtocol(name="range", metadata=b"")]
        joined = self.client.ask(
            JoinGroupRequest(
                group_id=group,
                session_timeout_ms=SESSION_MS,
                rebalance_timeout_ms=60_000,
                protocol_type="consumer",
                protocols=protocols,
            ),
            3,
        )
        self._member_id, self._generation = joined.member_id, joined.generation_id
        synced = self.client.ask(
            SyncGroupRequest(
                group_id=group, generation_id=self._generation, member_id=self._member_id
            ),
            3,
        )
        assert synced.error_code == ErrorCode.NONE

    def heartbeat(self) -> HeartbeatRequest:
        return HeartbeatRequest(
            group_id=self._group, generation_id=self._generation, member_id=self._member_id
        )


class ConsumerMember:
    version = 1

    def __init__(self, bootstrap: str, group: str) -> None:
        self.client = RawClient(bootstrap)
        self._request = ConsumerGroupHeartbeatRequest(
            group_id=group,
            member_id=str(uuid4()),
            rebalance_timeout_ms=60_000,
            subscribed_topic_names=["none"],
            topic_partitions=[],
        )
        joined = self.client.ask(self._request, 1)
        assert joined.error_code == ErrorCode.NONE
        self._request.member_epoch = joined.member_epoch

    def heartbeat(self) -> ConsumerGroupHeartbeatRequest:
        return self._request


@pytest.mark.parametrize("member_class", [ClassicMember, ConsumerMember])
def test_a_member_whose_heartbeat_lies_in_the_socket_is_not_expelled(
    broker: Broker, member_class: type[ClassicMember] | type[ConsumerMember]
) -> None:
    wait_for(lambda: coordinator_is_there(broker.bootstrap))
    members = [member_class(broker.bootstrap, f"group-{n}") for n in range(GROUPS)]
    broker.process.freeze()
    try:
        for member in members:
            member.client.send_frame(frame_of(member))
        # The sessions end while nothing is read.
        time.sleep(STOPPED_S)
    finally:
        broker.process.thaw()
    for member in members:
        assert error_of(member) == ErrorCode.NONE
        with member.client as client:
            assert client.ask(member.heartbeat(), member.version).error_code == ErrorCode.NONE


def coordinator_is_there(bootstrap: str) -> bool:
    with RawClient(bootstrap) as client:
        answer = client.ask(FindCoordinatorRequest(key="group-0"), 1)
        if answer.error_code != ErrorCode.NONE:
            return False
        probe = HeartbeatRequest(group_id="nobody", generation_id=0, member_id="nobody")
        known = client.ask(probe, 3).error_code
        return known not in (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR)


def frame_of(member: ClassicMember | ConsumerMember) -> bytes:
    return request_bytes(member.heartbeat(), member.version)


def error_of(member: ClassicMember | ConsumerMember) -> int:
    answer = answer_of(member.heartbeat(), member.client.read_frame(), member.version)
    return int(answer.error_code)
