"""Parses lines into records and sends them to a topic, for `produce` and `cat -P`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from functools import partial

import click

from floodmark.cli.errors import CliError
from floodmark.cli.progress import Progress
from floodmark.cli.record_json import Outgoing
from floodmark.cli.session import failure
from floodmark.client.errors import ConnectionFailed, KafkaError
from floodmark.client.producer.batch import Delivery
from floodmark.client.producer.producer import Producer
from floodmark.records.record import Header
from floodmark.wire.errors import ErrorCode

TELL_AFTER_S = 2


@dataclass(frozen=True, slots=True)
class LineParser:
    """Turns one line into a record."""

    key_separator: bytes | None = None
    key: bytes | None = None
    headers: list[Header] = field(default_factory=list)
    # A key or value of exactly these bytes becomes null (a tombstone).
    null_marker: bytes | None = None
    empty_is_null: bool = False

    def __call__(self, line: bytes) -> Outgoing:
        key: bytes | None = self.key
        value: bytes | None = line
        if self.key_separator is not None:
            before, separator, after = line.partition(self.key_separator)
            if separator:
                key, value = before, after
        return Outgoing(self._or_null(key), self._or_null(value), self.headers)

    def _or_null(self, data: bytes | None) -> bytes | None:
        if data == self.null_marker or (self.empty_is_null and data == b""):
            return None
        return data


async def _wait_for_topic(producer: Producer, topic: str) -> None:
    """Explains the wait if the topic does not exist and the broker does not create it.

    The producer would otherwise wait silently for `max.block.ms`.
    """
    waiting = asyncio.create_task(producer.partitions_for(topic))
    try:
        await asyncio.wait({waiting}, timeout=TELL_AFTER_S)
        if not waiting.done():
            click.echo(f"waiting for topic {topic}: {_why_missing(producer, topic)}", err=True)
        await waiting
    finally:
        waiting.cancel()


def _why_missing(producer: Producer, topic: str) -> str:
    code = producer.cluster.view.topic_errors.get(topic)
    if code is None or code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return (
            "it does not exist, and the broker does not create topics automatically "
            f"(auto.create.topics.enable): create it with `floodmark topic create {topic}`"
        )
    return f"the broker says {KafkaError(ErrorCode(code))}"


def _not_sent(error: click.ClickException, sent: int) -> CliError:
    """An invalid record stops the command. The error says which one it was."""
    why = error.why if isinstance(error, CliError) else None
    hint = error.hint if isinstance(error, CliError) else None
    others = {0: "", 1: "; the one before it was sent"}
    before = others.get(sent, f"; the {sent} before it were sent")
    return CliError(f"record {sent + 1}: {error.message}{before}", why=why, hint=hint)


def _not_delivered(number: int, error: KafkaError, failed: int, sent: int) -> click.ClickException:
    """What the broker refused: `number` is the first of `failed` records."""
    what = f"record {number} was not delivered"
    if failed > 1:
        what = f"{failed} of {sent} records were not delivered, beginning with record {number}"
    return failure(error, what)


async def send_all(
    producer: Producer,
    topic: str,
    pieces: AsyncIterator[list[bytes]],
    parse: Callable[[bytes], Outgoing],
    *,
    partition: int | None = None,
    limit: int | None = None,
) -> int:
    """Sends until the input ends and returns the number of records. Raises the first failure."""
    if producer.settings.transactional_id is not None:
        raise CliError(
            "invalid client settings",
            why="this command sends records without a transaction, but transactional.id is set",
            hint="remove it from -X, --command-config or the profile",
        )
    progress = Progress("records sent")
    failures: dict[int, KafkaError] = {}
    sent = 0

    def note_failure(number: int, delivery: Delivery) -> None:
        try:
            delivery.result()
        except KafkaError as error:
            failures[number] = error

    async for lines in pieces:
        if not sent and lines:
            await _wait_for_topic(producer, topic)
        for line in lines[: None if limit is None else limit - sent]:
            try:
                record = parse(line)
                delivery = await producer.send(
                    topic,
                    record.value,
                    key=record.key,
                    partition=partition if record.partition is None else record.partition,
                    headers=record.headers,
                    timestamp_ms=record.timestamp,
                )
            except click.ClickException as error:
                await producer.flush()
                raise _not_sent(error, sent) from error
            except ConnectionFailed:
                raise
            except KafkaError as error:
                await producer.flush()
                raise _not_sent(failure(error), sent) from error
            sent += 1
            delivery.add_done_callback(partial(note_failure, sent))
        progress.update(sent)
        if failures or sent == limit:
            break
    await producer.flush()
    progress.finish()
    if failures:
        first = min(failures)
        refusal = failures[first]
        if isinstance(refusal, ConnectionFailed):
            raise refusal
        raise _not_delivered(first, refusal, len(failures), sent) from refusal
    return sent
