"""The cases G1 to G5: groups, offsets, transactions and compaction, with the bounds of issue 4.

Each is a function of a running server that gives its measures, as in cases.py; coordinators.py
runs them.
"""

import itertools
import struct
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import actors
import group_wire
import load
import wire
from batches import RECORD_BYTES, make_keyed_batch, make_transactional_batch, patch_producer
from cases import Case, Measure
from pauses import second_client
from rebalance import (
    ClassicGroup,
    ClassicMember,
    ConsumerMember,
    seconds_until_balanced,
    seconds_until_spread,
)
from servers import Server, new_name, running

_MEMBERS = 50
_PARTITIONS = 500
_COMMITTERS = 32
_PRODUCERS = 32
_KEYS_PER_BATCH = 100
_POLL_SECONDS = 0.005
_RETRY_SECONDS = 0.001
_PATIENCE_SECONDS = 120.0

# Of both brokers: nobody waits for members that may still come, nor between two assignments, and
# the cleaner looks often, so that what is timed is its work.
SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.assignment.interval.ms": "0",
    "log.cleaner.backoff.ms": "100",
}


def g1_classic_rebalance(server: Server, scale: float) -> dict[str, float]:
    """All join, then one leaves, then it comes back."""
    topic = new_name()
    with server.topic(_PARTITIONS, topic):
        connections = server.connect(_MEMBERS)
        group = ClassicGroup(new_name(), topic, _PARTITIONS)
        group_wire.find_group(connections[0], group.name)
        members = [ClassicMember(connection, group) for connection in connections]
        joined = seconds_until_balanced(members, members)
        members[-1].leave()
        left = seconds_until_balanced(members[:-1], [])
        came = seconds_until_balanced(members, members[-1:])
        for member in members:
            member.leave()
    return {"joined": joined * 1e3, "left": left * 1e3, "came": came * 1e3}


def g1b_consumer_rebalance(server: Server, scale: float) -> dict[str, float]:
    """The same in the new protocol, in which the broker assigns."""
    topic = new_name()
    with server.topic(_PARTITIONS, topic) as topic_id:
        connections = server.connect(_MEMBERS)
        group = new_name()
        group_wire.find_group(connections[0], group)
        members = [
            ConsumerMember(connection, group, f"member-{number}", topic, topic_id)
            for number, connection in enumerate(connections)
        ]
        joined = seconds_until_spread(members, members, _PARTITIONS)
        members[-1].leave()
        left = seconds_until_spread(members[:-1], [], _PARTITIONS)
        came = seconds_until_spread(members, members[-1:], _PARTITIONS)
        for member in members:
            member.leave()
    return {"joined": joined * 1e3, "left": left * 1e3, "came": came * 1e3}


class _Committer:
    """Commits the same partitions again and again, one request in flight."""

    wake_at: float | None = None

    def __init__(self, member: ClassicMember, topic_id: bytes, requests: int) -> None:
        self.connection = member.connection
        self.left = requests
        self.frame = group_wire.commit_offsets(
            member.group.name, member.generation_id, member.member_id, topic_id, [0]
        )

    def answered(self, answer: bytes) -> bytearray | None:
        group_wire.check_committed(answer)
        self.left -= 1
        return self.woken() if self.left else None

    def woken(self) -> bytearray:
        struct.pack_into(">q", self.frame.data, self.frame.patch_at, self.left)
        return self.frame.data


def g2_commits(server: Server, scale: float) -> dict[str, float]:
    """32 groups of one member each; every commit is of one partition."""
    requests_each = max(int(60_000 * scale) // _COMMITTERS, 1)
    topic = new_name()
    with server.topic(1, topic) as topic_id:
        connections = server.connect(_COMMITTERS)
        members = [_member_alone(connection, topic) for connection in connections]
        committers = [_Committer(member, topic_id, requests_each) for member in members]
        cpu, elapsed = _measured(server, lambda: _run_all(committers))
        for member in members:
            member.leave()
    sent = requests_each * _COMMITTERS
    return {"per_cpu": sent / cpu, "rate": sent / elapsed}


def _member_alone(connection: wire.Connection, topic: str) -> ClassicMember:
    """The only member of a new group."""
    group = ClassicGroup(new_name(), topic, 1)
    group_wire.find_group(connection, group.name)
    member = ClassicMember(connection, group)
    seconds_until_balanced([member], [member])
    return member


class _Producer:
    """One record and the end of its transaction, again and again, one request in flight."""

    def __init__(self, connection: wire.Connection, topic_id: bytes, partition: int) -> None:
        self.connection = connection
        self.left = 0
        self.wake_at: float | None = None
        name = new_name()
        group_wire.find_coordinator(connection, group_wire.TRANSACTION, name)
        batch = make_transactional_batch()
        self._produce = group_wire.transactional_produce(name, topic_id, partition, batch)
        produce = self._produce
        self._batch = memoryview(produce.data)[produce.patch_at : produce.patch_at + len(batch)]
        self._end = group_wire.commit_transaction(name)
        self._begin(*group_wire.new_transactional_producer(connection, name))

    def answered(self, answer: bytes) -> bytearray | None:
        if self._is_produced:
            return self._ended(answer)
        error_code, _ = wire.produced(answer)
        if error_code in group_wire.RETRIABLE | wire.RETRIABLE:
            self.wake_at = time.perf_counter() + _RETRY_SECONDS
            return None
        load.check_produced(answer)
        self._is_produced = True
        return self._end.data

    def _ended(self, answer: bytes) -> bytearray | None:
        error_code, producer_id, producer_epoch = group_wire.transaction_committed(answer)
        if error_code in group_wire.RETRIABLE:
            self.wake_at = time.perf_counter() + _RETRY_SECONDS
            return None
        if error_code:
            raise wire.Refused(f"EndTxn answered error {error_code}")
        self._begin(producer_id, producer_epoch)
        self.left -= 1
        return None if self.left == 0 else self._produce.data

    def woken(self) -> bytearray:
        return self._end.data if self._is_produced else self._produce.data

    def _begin(self, producer_id: int, producer_epoch: int) -> None:
        self._is_produced = False
        patch_producer(self._batch, producer_id, producer_epoch)
        struct.pack_into(">qh", self._end.data, self._end.patch_at, producer_id, producer_epoch)


def g3_transactions(server: Server, scale: float) -> dict[str, float]:
    """32 producers with a partition each; every transaction is one record."""
    each = max(int(12_000 * scale) // _PRODUCERS, 1)
    with server.topic(_PRODUCERS) as topic_id:
        producers = [
            _Producer(connection, topic_id, partition)
            for partition, connection in enumerate(server.connect(_PRODUCERS))
        ]
        for producer in producers:
            producer.left = 1
        _run_all(producers)  # the leaders know the topic by then
        for producer in producers:
            producer.left = each
        cpu, elapsed = _measured(server, lambda: _run_all(producers))
    return {"per_cpu": each * _PRODUCERS / cpu, "rate": each * _PRODUCERS / elapsed}


def _run_all(workers: list[_Committer] | list[_Producer]) -> None:
    for worker in workers:
        worker.connection.send(worker.woken())
    actors.run(workers, lambda: not any(worker.left for worker in workers), _PATIENCE_SECONDS)


def _measured(server: Server, work: Callable[[], None]) -> tuple[float, float]:
    """The broker's CPU seconds and the seconds by the clock."""
    cpu, start = server.process.cpu_seconds(), time.perf_counter()
    work()
    elapsed = time.perf_counter() - start
    return server.process.cpu_seconds() - cpu, elapsed


def g4_compaction(server: Server, scale: float) -> dict[str, float]:
    """A million records of 100,000 keys; the clock runs from the word that makes them due."""
    records, keys = int(1_000_000 * scale), max(int(100_000 * scale), _KEYS_PER_BATCH)
    topic = new_name()
    configs = {
        "cleanup.policy": "compact",
        "min.cleanable.dirty.ratio": "1.0",  # nothing is due yet: no ratio is above
        "segment.bytes": str(16 << 20),
    }
    with server.topic(1, topic, configs) as topic_id:
        (connection,) = server.connect()
        # As much again as a segment holds, so that the active one begins behind the million.
        _fill(connection, topic_id, records + (16 << 20) // RECORD_BYTES, keys)
        with second_client(server.port) as longest_seconds:
            start = time.perf_counter()
            group_wire.set_topic_config(connection, topic, "min.cleanable.dirty.ratio", "0.0")
            clean_offset = _wait_until_clean(server, topic, records)
            elapsed = time.perf_counter() - start
            pause = longest_seconds()
    rate = clean_offset / elapsed
    return {"rate": rate, "bytes": rate * RECORD_BYTES / 1e6, "pause": pause * 1e3}


def _fill(connection: wire.Connection, topic_id: bytes, records: int, keys: int) -> None:
    names = [b"key-%08d" % number for number in range(keys)]
    frames = [
        wire.produce(topic_id, 0, make_keyed_batch(names[at : at + _KEYS_PER_BATCH]))
        for at in range(0, keys, _KEYS_PER_BATCH)
    ]
    load.settle(connection, frames[0])
    for frame in itertools.islice(itertools.cycle(frames), records // _KEYS_PER_BATCH):
        load.check_produced(connection.call(frame.data))


def _wait_until_clean(server: Server, topic: str, offset: int) -> int:
    """Both brokers note in the same file how far a log is clean."""
    checkpoint = server.folder / "data" / "cleaner-offset-checkpoint"
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while time.monotonic() < deadline:
        for line in checkpoint.read_text().splitlines() if checkpoint.exists() else ():
            name, _, rest = line.partition(" ")
            if name == topic and int(rest.split()[1]) >= offset:
                return int(rest.split()[1])
        time.sleep(_POLL_SECONDS)
    raise TimeoutError(f"{topic} is not clean after {_PATIENCE_SECONDS} s")


def g5_memory(server: Server, scale: float) -> dict[str, float]:
    """What a fresh broker grows by: 5,000 groups of one member with one committed offset."""
    groups = int(5_000 * scale)
    with (
        tempfile.TemporaryDirectory(dir=server.folder) as folder,
        running(server.name, Path(folder), server.settings) as fresh,
    ):
        topic = new_name()
        with fresh.topic(1, topic) as topic_id:
            (connection,) = fresh.connect()
            _group_with_offset(connection, topic, topic_id)  # what the first one brings in
            before = fresh.process.rss_bytes()
            for _ in range(groups):
                _group_with_offset(connection, topic, topic_id)
            after = fresh.process.rss_bytes()
    return {"memory": (after - before) / 1e6}


def _group_with_offset(connection: wire.Connection, topic: str, topic_id: bytes) -> None:
    member = _member_alone(connection, topic)
    frame = group_wire.commit_offsets(
        member.group.name, member.generation_id, member.member_id, topic_id, [0]
    )
    group_wire.check_committed(connection.call(frame.data))


_REBALANCE = {
    "joined": Measure("all 50 join, until all have their share", "ms", ratio=1.0),
    "left": Measure("one leaves", "ms", ratio=1.0),
    "came": Measure("one comes", "ms", ratio=1.0),
}
_NO_SLOWER = 1.0

CASES: dict[str, Case] = {
    "G1": Case("50 members, 500 partitions, classic protocol", g1_classic_rebalance, _REBALANCE, 3),
    "G1b": Case("the same, consumer protocol", g1b_consumer_rebalance, _REBALANCE, 3),
    "G2": Case(
        "offset commits, 32 groups",
        g2_commits,
        {
            "per_cpu": Measure("commits per broker CPU second", "/s", least_ratio=_NO_SLOWER),
            "rate": Measure("commits per second, seen by the load", "/s"),
        },
        4,
    ),
    "G3": Case(
        "transactions of one record, 32 producers",
        g3_transactions,
        {
            "per_cpu": Measure("transactions per broker CPU second", "/s", least_ratio=_NO_SLOWER),
            "rate": Measure("transactions per second, seen by the load", "/s"),
        },
        4,
    ),
    "G4": Case(
        "compaction of 1,000,000 records, 100,000 keys",
        g4_compaction,
        {
            "rate": Measure("records cleaned per second", "/s"),
            "bytes": Measure("bytes cleaned per second", "MB/s"),
            "pause": Measure("longest wait of a second client meanwhile", "ms", limit=100),
        },
        1,
    ),
    "G5": Case(
        "5,000 groups, one member and one offset each",
        g5_memory,
        {"memory": Measure("memory they take", "MB", limit=100)},
        warm_up_rounds=0,  # a fresh broker each time
    ),
}
