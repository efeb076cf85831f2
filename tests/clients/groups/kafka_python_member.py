"""One member of a group: BOOTSTRAP GROUP PATTERN STRATEGY; see tests/group_kit/member.py."""

import json
import signal
import sys
from collections.abc import Iterable

from kafka import KafkaConsumer, TopicPartition
from kafka.consumer.subscription_state import ConsumerRebalanceListener
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.errors import CommitFailedError

_ASSIGNORS = {"range": RangePartitionAssignor, "roundrobin": RoundRobinPartitionAssignor}


class Printer(ConsumerRebalanceListener):
    def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        emit(event="assigned", partitions=[f"{at.topic}/{at.partition}" for at in assigned])

    def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        emit(event="revoked", partitions=[f"{at.topic}/{at.partition}" for at in revoked])


def main(bootstrap: str, group: str, pattern: str, strategy: str) -> None:
    asked_to_leave = []
    signal.signal(signal.SIGTERM, lambda *_: asked_to_leave.append(True))
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap,
        group_id=group,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        metadata_max_age_ms=500,
        session_timeout_ms=3000,
        heartbeat_interval_ms=500,
        partition_assignment_strategy=[_ASSIGNORS[strategy]],
    )
    consumer.subscribe(pattern=pattern, listener=Printer())
    while not asked_to_leave:
        polled = consumer.poll(timeout_ms=100)
        for at, records in polled.items():
            for record in records:
                partition = f"{at.topic}/{at.partition}"
                emit(event="record", partition=partition, offset=record.offset)
        if polled:
            commit(consumer)
    consumer.close()
    emit(event="closed")


def commit(consumer: KafkaConsumer) -> None:
    """An expelled member goes on: its commit changed nothing, and it joins again."""
    try:
        consumer.commit()
    except CommitFailedError as expelled:
        print(expelled, file=sys.stderr)


def emit(**event: object) -> None:
    print(json.dumps(event), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
