"""Simulated consumers. They record what they read, for the invariants."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from floodmark.invariant import invariant
from floodmark.records.batch import iter_headers
from floodmark.records.record import decode_records
from floodmark.testing.simulation.messages import ConsumerFetch, ConsumerFetchAnswer, Message
from floodmark.vocabulary import TopicPartition
from floodmark.wire.errors import ErrorCode


@dataclass(slots=True)
class SimulatedConsumer:
    """Reads one partition from the beginning, batch by batch, at one isolation level."""

    id: int
    key: TopicPartition
    is_read_committed: bool
    # After unclean elections, offsets may hold other records and the log may end earlier.
    may_diverge: bool
    send: Callable[[Message], None]
    next_offset: int = 0
    # The batches of this step, as received.
    batches: list[bytes] = field(default_factory=list)
    # The records delivered under read_committed, in this step and in all steps.
    given: list[bytes] = field(default_factory=list)
    values: set[bytes] = field(default_factory=set)
    # Whether records were deleted before they could be read.
    has_skipped: bool = False

    def tick(self, broker_id: int, random: Random, *, from_follower: bool) -> None:
        fetch = ConsumerFetch(
            self.key,
            self.next_offset,
            random.choice((200, 2000)),
            self.is_read_committed,
            from_follower,
        )
        self.send(Message(self.id, broker_id, fetch))

    def answered(self, answer: ConsumerFetchAnswer) -> None:
        if answer.fetch_offset != self.next_offset:
            return
        if answer.error_code is ErrorCode.OFFSET_OUT_OF_RANGE:
            self._reset(answer)
        elif answer.error_code is ErrorCode.NONE:
            self._read(answer)

    def _reset(self, answer: ConsumerFetchAnswer) -> None:
        if self.next_offset < answer.log_start_offset:
            self.next_offset = answer.log_start_offset
            self.has_skipped = True
        elif self.may_diverge and self.next_offset > answer.log_end_offset:
            self.next_offset = answer.log_end_offset

    def _read(self, answer: ConsumerFetchAnswer) -> None:
        aborted = sorted(answer.aborted, key=lambda one: one.first_offset)
        open_aborted: set[int] = set()
        for position, header in iter_headers(answer.records):
            batch = answer.records[position : position + header.size_bytes]
            while aborted and aborted[0].first_offset <= header.last_offset:
                open_aborted.add(aborted.pop(0).producer_id)
            invariant(
                header.base_offset <= self.next_offset <= header.last_offset,
                f"reads-are-contiguous: wanted {self.next_offset} of {self.key}, got "
                f"{header.base_offset} to {header.last_offset}",
            )
            self.next_offset = header.next_offset
            self.batches.append(batch)
            if not self.is_read_committed:
                continue
            if header.is_control:
                open_aborted.discard(header.producer_id)
            elif not (header.is_transactional and header.producer_id in open_aborted):
                self._give(batch)

    def _give(self, batch: bytes) -> None:
        values = [record.value or b"" for record in decode_records(batch)]
        self.given += values
        self.values.update(values)
