"""Brokers reduced to replication: real replica managers, fetchers and APIs, on disks in memory.

No sockets and no controller: requests go to the other broker's handler as Python calls, with the
answer encoded and decoded on the way, and a test decides who leads (`lead`). AlterPartition is
answered from what was decided last.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID

from floodmark.apis.context import RequestContext
from floodmark.apis.handlers import delete_records, fetch, list_offsets
from floodmark.apis.prepared.memory import Generation
from floodmark.apis.quotas import Unlimited
from floodmark.clock import SystemClock
from floodmark.network.connection import Peer
from floodmark.promise import Promise
from floodmark.records.record import Record, decode_records, encode_batch
from floodmark.records.validation import ProduceRules
from floodmark.replication import leading
from floodmark.replication.background import LoopBackground
from floodmark.replication.fetch_sessions import FetchSessions
from floodmark.replication.fetcher import FetcherSettings
from floodmark.replication.fetchers import Fetchers
from floodmark.replication.following_session import FollowerLimits
from floodmark.replication.isr_review import IsrReview
from floodmark.replication.outcomes import ACKS_ALL, AppendOutcome, Isolation
from floodmark.replication.partition import Leadership, Partition
from floodmark.replication.replica import Replica
from floodmark.replication.replica_manager import ReplicaManager
from floodmark.storage.log_config import LogConfig
from floodmark.storage.log_manager import LogManager
from floodmark.testing.memory_files import MemoryFiles
from floodmark.wire.compiler import decode_exact, encode, encode_parts
from floodmark.wire.errors import ErrorCode
from floodmark.wire.headers import RequestHeader
from floodmark.wire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    ResponsePartitionData,
    ResponseTopicData,
)
from floodmark.wire.messages.delete_records import DeleteRecordsRequest, DeleteRecordsResponse
from floodmark.wire.messages.fetch import FetchRequest, FetchResponse
from floodmark.wire.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse

TOPIC = "t"
TOPIC_ID = UUID(int=7)
LOG_DIR = Path("/logs")
FLEXIBLE_HEADER_BYTES = 5
APIS: dict[type, tuple[Any, type, int]] = {
    FetchRequest: (fetch.handle, FetchResponse, 18),
    ListOffsetsRequest: (list_offsets.handle, ListOffsetsResponse, 11),
    DeleteRecordsRequest: (delete_records.handle, DeleteRecordsResponse, 2),
}
MAX_WAIT_MS = 20_000
"""Nothing may depend on the end of a long poll: a test that waits for one takes too long."""


def settings(max_lag_ms: int) -> FetcherSettings:
    """As `config.checks` demands, a fetch waits for less time than puts a follower out of sync."""
    limits = FollowerLimits(
        max_wait_ms=min(MAX_WAIT_MS, max_lag_ms // 2),
        min_bytes=1,
        max_bytes=10 << 20,
        partition_max_bytes=1 << 20,
    )
    return FetcherSettings(limits, backoff_ms=200)


class Node:
    """One broker. `on_request` sees and may hold up or refuse what it asks others."""

    def __init__(self, cluster: ReplicaCluster, broker_id: int) -> None:
        self.id = broker_id
        self.broker_epoch = 100 + broker_id
        self.files = MemoryFiles()
        self.clock = SystemClock()
        self.asked: list[Any] = []
        self.failed: list[Exception] = []
        self.on_request: Callable[[Any], Awaitable[None]] | None = None
        self.on_answer: Callable[[Any], Awaitable[None]] | None = None
        self.is_down = False
        self._cluster = cluster
        self._peer = Peer("c", "h", "l", "PLAINTEXT")
        self._executor = ThreadPoolExecutor(2)
        self.logs = LogManager(self.files, [LOG_DIR], recovery_threads=1)
        self.logs.open_dirs()
        self.replicas = ReplicaManager(
            self.clock, LoopBackground(self._executor), self._disk_failed
        )
        self.fetchers = Fetchers(
            broker_id,
            self.replicas,
            self.logs,
            self.ask,
            lambda: self.broker_epoch,
            self.clock,
            self._executor,
            settings(cluster.max_lag_ms),
        )
        self.isr = IsrReview(
            broker_id,
            self.replicas,
            cluster.alter_partition,
            lambda: self.broker_epoch,
            self.clock,
            cluster.max_lag_ms,
            lambda follower: follower not in cluster.unregistered,
        )
        self.services: Any = SimpleNamespace(
            replicas=self.replicas,
            clock=self.clock,
            fetch_sessions=FetchSessions(100, 120_000, lambda: random.randint(1, 2**31 - 1)),
            topic_name=lambda topic_id: TOPIC if topic_id == TOPIC_ID else None,
            fetch_max_bytes=55 << 20,
            generation=Generation(),
            quotas=Unlimited(),
            leader=lambda *_: (-1, -1),
            image=SimpleNamespace(is_live=lambda broker: not cluster.nodes[broker].is_down),
        )

    def start(self) -> None:
        self.fetchers.start()
        self.isr.start()

    async def close(self) -> None:
        await self.fetchers.close()
        await self.isr.close()
        await self.replicas.close()
        self._executor.shutdown()

    def replica(self, partition: int = 0) -> Replica:
        replica = self.replicas.find((TOPIC, partition))
        assert replica is not None
        return replica

    def open(self, partition: int, config: LogConfig, min_in_sync_replicas: int) -> None:
        log = self.logs.get_or_create(
            TOPIC, partition, TOPIC_ID, config, now_ms=self.clock.now_ms()
        )
        core = Partition(
            self.id, log_end_offset=log.log_end_offset, high_watermark=log.log_start_offset
        )
        self.replicas.add(Replica(core, log, TOPIC_ID, ProduceRules(), min_in_sync_replicas))

    async def ask(self, broker_id: int, message: Any, purpose: str) -> Any:
        self.asked.append(message)
        if self.on_request is not None:
            await self.on_request(message)
        target = self._cluster.nodes[broker_id]
        if self.is_down or target.is_down:
            raise ConnectionError(f"broker {broker_id} is down")
        answer = await target.serve(message)
        if self.is_down or target.is_down:
            raise ConnectionError(f"broker {broker_id} is down")
        if self.on_answer is not None:
            await self.on_answer(answer)
        return answer

    async def serve(self, message: Any) -> Any:
        """What the API's handler answers, as it comes out of the wire."""
        handle, answer_type, version = APIS[type(message)]
        message = _over_the_wire(message, version)
        header = RequestHeader(0, version, 1)
        answer = handle(RequestContext(self.services, self._peer, header), message)
        if isinstance(answer, Promise) or asyncio.iscoroutine(answer):
            answer = await answer
        parts: list[Any] = []
        if isinstance(answer, answer_type):
            encode_parts(answer, version, parts)
            return decode_exact(answer_type, _joined(parts), version)
        parts = answer if isinstance(answer, list) else [answer]
        return decode_exact(answer_type, _joined(parts)[FLEXIBLE_HEADER_BYTES:], version)

    # What clients do

    def append(self, value: bytes, partition: int = 0, acks: int = 1) -> AppendOutcome:
        return self.append_all([value], partition, acks)

    def append_all(
        self, values: Iterable[bytes], partition: int = 0, acks: int = 1
    ) -> AppendOutcome:
        now_ms = self.clock.now_ms()
        records = [Record(i, now_ms, None, value, []) for i, value in enumerate(values)]
        return self.replicas.append((TOPIC, partition), memoryview(encode_batch(records)), acks)

    def produce(
        self, value: bytes, partition: int = 0, timeout_ms: int = 20_000
    ) -> asyncio.Future[ErrorCode]:
        """With acks=all: a future of the answer's error code."""
        key = (TOPIC, partition)
        outcome = self.append(value, partition, ACKS_ALL)
        final = self.replicas.acknowledged({key: outcome}, ACKS_ALL, timeout_ms)
        return final.map(lambda outcomes: outcomes[key].error_code).future()

    def values(self, partition: int = 0) -> list[bytes | None]:
        """All that is in the log, also above the high watermark."""
        log = self.replica(partition).log
        found: list[bytes | None] = []
        offset = log.log_start_offset
        while offset < log.log_end_offset:
            piece = log.read(offset, 1 << 20, end_offset=log.log_end_offset, min_one_batch=True)
            if piece is None:
                break
            records = [r for r in decode_records(piece.read()) if r.offset >= offset]
            found += [record.value for record in records]
            offset = records[-1].offset + 1
        return found

    def end(self, partition: int = 0) -> int:
        return self.replica(partition).log.log_end_offset

    def committed(self, partition: int = 0) -> int:
        """How many records a consumer can read here, as KIP-392 lets it."""
        replica = self.replica(partition)
        outcome = leading.read(
            replica,
            replica.log.log_start_offset,
            1 << 20,
            Isolation.READ_UNCOMMITTED,
            is_follower=False,
            min_one_batch=True,
            leader_only=False,
        )
        return outcome.high_watermark

    def _disk_failed(self, replica: Replica, problem: Exception) -> None:
        self.failed.append(problem)
        self.replicas.take_offline([replica.key])


class ReplicaCluster:
    def __init__(self, brokers: int = 3, max_lag_ms: int = 100_000) -> None:
        self.unregistered: set[int] = set()
        self.max_lag_ms = max_lag_ms
        self.decided: dict[int, Leadership] = {}
        self.proposals: list[AlterPartitionRequest] = []
        self.refuse_with: list[ErrorCode] = []
        self.nodes = {broker_id: Node(self, broker_id) for broker_id in range(1, brokers + 1)}
        for node in self.nodes.values():
            node.start()

    async def close(self) -> None:
        for node in self.nodes.values():
            await node.close()

    def create(
        self,
        partitions: int = 1,
        *,
        isr: tuple[int, ...] | None = None,
        config: LogConfig | None = None,
        min_in_sync_replicas: int = 1,
    ) -> None:
        """Partitions on all brokers; broker 1 leads in epoch 0."""
        for partition in range(partitions):
            for node in self.nodes.values():
                node.open(partition, config or LogConfig(), min_in_sync_replicas)
            self.lead(1, partition, isr=isr)

    def lead(
        self,
        leader: int,
        partition: int = 0,
        *,
        isr: tuple[int, ...] | None = None,
        tell: Iterable[int] | None = None,
    ) -> None:
        """A new leader epoch; `tell` are the brokers that hear about it."""
        before = self.decided.get(partition)
        everybody = tuple(self.nodes)
        self.decided[partition] = Leadership(
            leader,
            0 if before is None else before.leader_epoch + 1,
            0 if before is None else before.partition_epoch + 1,
            isr or everybody,
            everybody,
        )
        self.tell(partition, everybody if tell is None else tell)

    def tell(self, partition: int, brokers: Iterable[int]) -> None:
        for broker in brokers:
            node = self.nodes[broker]
            replica = node.replicas.find((TOPIC, partition))
            if replica is not None:
                node.replicas.lead_or_follow(replica, self.decided[partition])

    async def alter_partition(self, request: AlterPartitionRequest) -> AlterPartitionResponse:
        request = _over_the_wire(request, 3)
        self.proposals.append(request)
        if self.nodes[request.broker_id].is_down:
            raise ConnectionError("no controller")
        answers = []
        for topic in request.topics:
            assert topic.topic_id == TOPIC_ID
            for wanted in topic.partitions:
                answers.append(self._alter(wanted))
        return AlterPartitionResponse(
            topics=[ResponseTopicData(topic_id=TOPIC_ID, partitions=answers)]
        )

    def _alter(self, wanted: Any) -> ResponsePartitionData:
        known = self.decided[wanted.partition_index]
        error_code = self.refuse_with.pop(0) if self.refuse_with else ErrorCode.NONE
        if error_code is ErrorCode.NONE:
            if wanted.leader_epoch != known.leader_epoch:
                error_code = ErrorCode.FENCED_LEADER_EPOCH
            elif wanted.partition_epoch != known.partition_epoch:
                error_code = ErrorCode.INVALID_UPDATE_VERSION
            elif any(
                member.broker_epoch != self.nodes[member.broker_id].broker_epoch
                for member in wanted.new_isr_with_epochs
            ):
                error_code = ErrorCode.INELIGIBLE_REPLICA
        if error_code is not ErrorCode.NONE:
            return ResponsePartitionData(
                partition_index=wanted.partition_index, error_code=error_code
            )
        known = self.decided[wanted.partition_index] = replace(
            known,
            partition_epoch=known.partition_epoch + 1,
            in_sync_replicas=tuple(m.broker_id for m in wanted.new_isr_with_epochs),
        )
        return ResponsePartitionData(
            partition_index=wanted.partition_index,
            leader_id=known.leader,
            leader_epoch=known.leader_epoch,
            isr=list(known.in_sync_replicas),
            partition_epoch=known.partition_epoch,
        )


def _over_the_wire(message: Any, version: int) -> Any:
    return decode_exact(type(message), encode(message, version), version)


def _joined(parts: list[Any]) -> bytes:
    return b"".join(
        part if isinstance(part, bytes | bytearray | memoryview) else part.read(0, len(part))
        for part in parts
    )
