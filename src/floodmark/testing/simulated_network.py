"""The network of a simulated cluster: messages that arrive late, twice, out of order or never.

Used by `testing.simulator`. Nodes are numbers: the controller is 0, brokers count from 1, clients
from 101. Nothing moves by itself: the simulator says which message arrives next.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import NamedTuple, TypeAlias

from floodmark.controller.isr import IsrAnswer, IsrProposal
from floodmark.metadata.image import PartitionImage
from floodmark.replication.follower import FollowerAnswer, FollowerFetch
from floodmark.wire.errors import ErrorCode

CONTROLLER = 0
MAX_IN_FLIGHT = 80
"""A fuller network loses its oldest messages: schedules stay short of memory and of old news."""


class LeaderAndIsr(NamedTuple):
    """The controller tells a broker about the partition; meant for one broker epoch (KIP-380)."""

    broker_epoch: int
    partition: PartitionImage


class AlterPartition(NamedTuple):
    broker_epoch: int
    proposal: IsrProposal


class AlterPartitionAnswer(NamedTuple):
    proposal: IsrProposal
    error_code: ErrorCode
    answer: IsrAnswer | None


class ReplicaFetch(NamedTuple):
    """`incarnation` stands for the connection: an answer never reaches a later process."""

    incarnation: int
    broker_epoch: int
    fetch: FollowerFetch
    max_bytes: int


class ReplicaFetchAnswer(NamedTuple):
    incarnation: int
    fetch: FollowerFetch
    answer: FollowerAnswer
    records: bytes


class Produce(NamedTuple):
    request: int
    acks: int
    batch: bytes


class ProduceAnswer(NamedTuple):
    request: int
    error_code: ErrorCode
    base_offset: int


class ConsumerFetch(NamedTuple):
    fetch_offset: int
    max_bytes: int


class ConsumerFetchAnswer(NamedTuple):
    fetch_offset: int
    error_code: ErrorCode
    records: bytes


Payload: TypeAlias = (
    LeaderAndIsr
    | AlterPartition
    | AlterPartitionAnswer
    | ReplicaFetch
    | ReplicaFetchAnswer
    | Produce
    | ProduceAnswer
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


@dataclass(slots=True)
class SimulatedNetwork:
    in_flight: list[Message] = field(default_factory=list)
    cut_links: list[tuple[int, int]] = field(default_factory=list)

    def send(self, message: Message) -> None:
        self.in_flight.append(message)
        if len(self.in_flight) > MAX_IN_FLIGHT:
            del self.in_flight[0]

    def take(self, random: Random) -> Message:
        """Any message, the older ones rather than the younger."""
        return self.in_flight.pop(int(random.random() ** 2 * len(self.in_flight)))

    def take_first(self) -> Message:
        return self.in_flight.pop(0)

    def forget(self, source: int, target: int) -> None:
        """Everything under way from one to the other is lost."""
        self.in_flight = [m for m in self.in_flight if (m.source, m.target) != (source, target)]

    def is_cut(self, one: int, other: int) -> bool:
        return (min(one, other), max(one, other)) in self.cut_links

    def cut(self, one: int, other: int) -> None:
        if not self.is_cut(one, other):
            self.cut_links.append((min(one, other), max(one, other)))
