"""Kafka's VerifiableConsumer and ConsumerGroupCommand see groups of both protocols as Kafka's."""

import re
from collections import Counter
from pathlib import Path

import pytest
from confluent_kafka import Producer

from conformance_kit.verifiable_consumer import VerifiableConsumer
from kit.broker import Broker
from kit.jars import KAFKA_3, KAFKA_4
from kit.kafka_tools import dump_segments, kafka_tool
from kit.waiting import wait_for

pytestmark = [pytest.mark.java, pytest.mark.timeout(240)]

_TOOLS = "org.apache.kafka.tools."
_COOPERATIVE = "org.apache.kafka.clients.consumer.CooperativeStickyAssignor"
PARTITIONS = set(range(6))
RECORDS = 600

_PROTOCOLS = {
    "eager": ("--session-timeout", "6000"),
    "cooperative": ("--session-timeout", "6000", "--assignment-strategy", _COOPERATIVE),
    "consumer": ("--group-protocol", "consumer", "--group-remote-assignor", "uniform"),
}
# What ConsumerGroupCommand shows of a group; one classic group is enough for it.
_TYPE_AND_ASSIGNOR = {"eager": ("classic", "range"), "consumer": ("consumer", "uniform")}


@pytest.mark.parametrize(
    ("protocol", "version"),
    # 3.9.1 has the first version of KIP-848's heartbeat: there the broker names the members.
    [*((protocol, KAFKA_4) for protocol in _PROTOCOLS), ("consumer", KAFKA_3)],
)
def test_members_share_the_partitions_and_hand_them_over(
    broker: Broker, topic: str, tmp_path: Path, protocol: str, version: str
) -> None:
    create(broker, topic)
    group, options = f"{topic}-group", _PROTOCOLS[protocol]
    has_checks = protocol in _TYPE_AND_ASSIGNOR and version == KAFKA_4

    def member(name: str) -> VerifiableConsumer:
        log_path = tmp_path / name
        return VerifiableConsumer(
            broker.bootstrap, topic, group, log_path, *options, version=version
        )

    with member("first") as first, member("second") as second:
        wait_for(lambda: share_evenly(first, second))
        produce(broker, topic)
        wait_for(lambda: total(first, second).total() >= RECORDS)
        if has_checks:
            check_living_group(broker, topic, group, *_TYPE_AND_ASSIGNOR[protocol])
        first.leave()
        wait_for(lambda: second.owned() == PARTITIONS)
        produce(broker, topic)
        wait_for(lambda: total(first, second).total() >= 2 * RECORDS)
        second.leave()
    assert set(total(first, second).values()) == {1}, "a record was consumed twice"
    assert not first.failed_commits()
    assert not second.failed_commits()
    if has_checks:
        check_empty_group(broker, topic, group)
        check_offsets_log(broker, group, *_TYPE_AND_ASSIGNOR[protocol])
        check_deletion(broker, topic, group)


def create(broker: Broker, topic: str) -> None:
    count = str(len(PARTITIONS))
    run(broker, "TopicCommand", "--create", "--topic", topic, "--partitions", count)


def produce(broker: Broker, topic: str) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for number in range(RECORDS):
        producer.produce(topic, f"{number}", partition=number % len(PARTITIONS))
    assert producer.flush(30) == 0


def share_evenly(first: VerifiableConsumer, second: VerifiableConsumer) -> bool:
    mine, theirs = first.owned(), second.owned()
    return len(mine) == len(theirs) and not mine & theirs and mine | theirs == PARTITIONS


def total(*members: VerifiableConsumer) -> Counter[tuple[int, int]]:
    return sum((member.consumed() for member in members), Counter())


def run(broker: Broker, tool: str, *arguments: str) -> str:
    return kafka_tool(_TOOLS + tool, "--bootstrap-server", broker.bootstrap, *arguments)


def groups(broker: Broker, *arguments: str) -> str:
    return run(broker, "consumer.group.ConsumerGroupCommand", *arguments)


def check_living_group(broker: Broker, topic: str, group: str, kind: str, assignor: str) -> None:
    """Its lag, its members, its state, and that it is protected."""
    described = groups(broker, "--describe", "--group", group)
    rows = [line.split() for line in described.splitlines() if line.startswith(group)]
    assert {(row[1], int(row[2])) for row in rows} == {(topic, at) for at in PARTITIONS}
    assert all(row[4] == "100" for row in rows), described
    members = groups(broker, "--describe", "--group", group, "--members", "--verbose")
    rows = [line.split() for line in members.splitlines() if line.startswith(group)]
    assert len({row[1] for row in rows}) == 2, members
    state = groups(broker, "--describe", "--group", group, "--state")
    row = rf"{group}\s+\S+\s+\(1\)\s+{assignor}\s+Stable\b.*\s2\s"
    assert re.search(row, state), state
    listed = groups(broker, "--list", "--state", "stable", "--type", kind)
    assert group in listed
    reset = groups(
        broker, "--reset-offsets", "--group", group, "--all-topics", "--to-earliest", "--execute"
    )
    assert "inactive" in reset, reset


def check_empty_group(broker: Broker, topic: str, group: str) -> None:
    assert re.search(rf"{group}\s.*Empty", groups(broker, "--list", "--state"))
    shifted = groups(
        broker,
        *("--reset-offsets", "--group", group, "--topic", f"{topic}:1", "--shift-by", "-50"),
        "--execute",
    )
    assert re.search(rf"{topic}\s+1\s+150", shifted), shifted
    described = groups(broker, "--describe", "--group", group, "--offsets")
    assert re.search(rf"{topic}\s+1\s+150\s+200\s+50\s", described), described


def check_offsets_log(broker: Broker, group: str, kind: str, assignor: str) -> None:
    logs = [log for log in broker.data_dir.glob("__consumer_offsets-*/*.log") if log.stat().st_size]
    records = dump_segments(logs, "--offsets-decoder").splitlines()
    ours = [line for line in records if f'"{group}"' in line]
    assert any('"topic"' in line and '"offset":200' in line for line in ours), ours
    if kind == "classic":
        assert any(f'"protocol":"{assignor}"' in line for line in ours), ours
    else:
        assert any('"memberEpoch"' in line for line in ours), ours


def check_deletion(broker: Broker, topic: str, group: str) -> None:
    assert "Successful" in groups(broker, "--delete-offsets", "--group", group, "--topic", topic)
    assert "successful" in groups(broker, "--delete", "--group", group)
    assert group not in groups(broker, "--list")
