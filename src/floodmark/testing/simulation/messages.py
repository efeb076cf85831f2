"""Messages in a simulated cluster's network.

Nodes are numbers: brokers start at 1, clients at 101. The metadata store is 0; only its links can
be cut, because sessions do not use messages here.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from floodmark.controller.isr import IsrAnswer, IsrProposal
from floodmark.metadata.image import PartitionImage
from floodmark.replication.follower import FollowerAnswer, FollowerFetch
from floodmark.storage.indexes.transaction_index import AbortedTransaction
from floodmark.vocabulary import TopicPartition
from floodmark.wire.errors import ErrorCode

STORE = 0


class LeaderAndIsr(NamedTuple):
    """The controller informs one incarnation of a broker about its partitions."""

    controller_epoch: int
    broker_epoch: int
    partitions: tuple[tuple[TopicPartition, PartitionImage], ...]


class StopReplica(NamedTuple):
    """A partition has moved to other brokers, and its log here goes.

    Includes the UpdateMetadata before it, which tells where the partition is now.
    """

    controller_epoch: int
    broker_epoch: int
    key: TopicPartition
    partition: PartitionImage


class UpdateMetadata(NamedTuple):
    """The controller announces itself. Separate from LeaderAndIsr, so either may arrive first."""

    controller_epoch: int
    broker_epoch: int


class AlterPartition(NamedTuple):
    broker_epoch: int
    key: TopicPartition
    proposal: IsrProposal


class AlterPartitionAnswer(NamedTuple):
    key: TopicPartition
    proposal: IsrProposal
    error_code: ErrorCode
    answer: IsrAnswer | None


class ReplicaFetch(NamedTuple):
    """`incarnation` stands for the connection: a response never reaches a later process."""

    incarnation: int
    broker_epoch: int
    key: TopicPartition
    fetch: FollowerFetch
    max_bytes: int


class ReplicaFetchAnswer(NamedTuple):
    incarnation: int
    key: TopicPartition
    fetch: FollowerFetch
    answer: FollowerAnswer
    records: bytes


class ReplicaOffsets(NamedTuple):
    """A follower asks for the start and end of its leader's log."""

    incarnation: int
    key: TopicPartition
    fetch: FollowerFetch


class ReplicaOffsetsAnswer(NamedTuple):
    incarnation: int
    key: TopicPartition
    fetch: FollowerFetch
    log_start_offset: int
    log_end_offset: int


class Produce(NamedTuple):
    request: int
    key: TopicPartition
    acks: int
    batch: bytes
    is_transactional: bool = False


class ProduceAnswer(NamedTuple):
    request: int
    key: TopicPartition
    error_code: ErrorCode
    base_offset: int


class WriteMarker(NamedTuple):
    """A transaction's end in one partition. The producer is its own coordinator here."""

    key: TopicPartition
    producer_id: int
    producer_epoch: int
    is_commit: bool


class MarkerAnswer(NamedTuple):
    key: TopicPartition
    producer_epoch: int
    error_code: ErrorCode


class ConsumerFetch(NamedTuple):
    key: TopicPartition
    fetch_offset: int
    max_bytes: int
    is_read_committed: bool
    from_follower: bool


class ConsumerFetchAnswer(NamedTuple):
    key: TopicPartition
    fetch_offset: int
    error_code: ErrorCode
    records: bytes
    aborted: tuple[AbortedTransaction, ...]
    log_start_offset: int
    log_end_offset: int


Payload: TypeAlias = (
    LeaderAndIsr
    | StopReplica
    | UpdateMetadata
    | AlterPartition
    | AlterPartitionAnswer
    | ReplicaFetch
    | ReplicaFetchAnswer
    | ReplicaOffsets
    | ReplicaOffsetsAnswer
    | Produce
    | ProduceAnswer
    | WriteMarker
    | MarkerAnswer
    | ConsumerFetch
    | ConsumerFetchAnswer
)


class Message(NamedTuple):
    source: int
    target: int
    payload: Payload

    def __str__(self) -> str:
        fields = self.payload._asdict()
        shown = ", ".join(
            f"{name}={len(value)} bytes" if isinstance(value, bytes) else f"{name}={value}"
            for name, value in fields.items()
        )
        return f"{self.source} -> {self.target} {type(self.payload).__name__}({shown})"
