"""Prepared fetch responses, for fetches that find records in one partition, which is most of them.

Such responses differ only in offsets and records, so each connection keeps the bytes around them
and does not build them field by field. Called by `handlers.fetch`, which builds all other
responses.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias
from uuid import UUID

from floodmark.apis.context import RequestContext
from floodmark.apis.prepared.memory import memory_of
from floodmark.apis.prepared.offsets_template import OffsetsTemplate
from floodmark.network.transfer import Answer
from floodmark.replication.fetch_sessions import Topic
from floodmark.replication.outcomes import ReadOutcome
from floodmark.wire.api_keys import FIRST_FLEXIBLE_VERSION, ApiKey
from floodmark.wire.compiler import encode_parts
from floodmark.wire.headers import response_header_encoder
from floodmark.wire.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from floodmark.wire.primitives import encode_bytes_length

MOST_PARTITIONS = 256
"""A connection prepares responses for this many partitions, and builds the others."""

FIRST_VERSION = 5
"""Older responses have only two offsets."""

_FIRST_FLEXIBLE = FIRST_FLEXIBLE_VERSION[ApiKey.FETCH]
_ONE_BYTE = b"\0"


class Prepared(NamedTuple):
    """The bytes that all responses of one kind have in common."""

    session_id: int
    template: OffsetsTemplate
    back: bytes
    """The bytes after the records."""


Kind: TypeAlias = tuple[int, Topic, int, bool]
"""Version, topic, partition, and whether responses list aborted transactions."""


def prepared_answer(
    context: RequestContext, kind: Kind, session_id: int, outcome: ReadOutcome
) -> Answer | None:
    """The response with the records of one partition.

    None if it must be built: without records, with aborted transactions, in an old version, or for
    too many partitions.
    """
    records = outcome.records
    if records is None or outcome.aborted:
        return None
    prepared = _prepared(context, kind, session_id)
    if prepared is None:
        return None
    _, template, back = prepared
    start = template.pack(
        context.correlation_id,
        template.front,
        outcome.high_watermark,
        outcome.last_stable_offset,
        outcome.log_start_offset,
        template.back,
    )
    length = encode_bytes_length(records.size_bytes, kind[0] >= _FIRST_FLEXIBLE)
    if records.data is not None:
        return b"".join((start, length, records.data, back))
    return [start + length, records, back]


def _prepared(context: RequestContext, kind: Kind, session_id: int) -> Prepared | None:
    if kind[0] < FIRST_VERSION:
        return None
    answers = memory_of(context).fetch_answers
    prepared = answers.get(kind)
    if prepared is None or prepared.session_id != session_id:
        if prepared is None and len(answers) >= MOST_PARTITIONS:
            return None
        prepared = answers[kind] = _prepare(kind, session_id)
    return prepared


def _prepare(kind: Kind, session_id: int) -> Prepared:
    template = OffsetsTemplate.of(lambda value: _parts(kind, session_id, value)[0])
    return Prepared(session_id, template, _parts(kind, session_id, 0)[1])


def _parts(kind: Kind, session_id: int, value: int) -> tuple[bytes, bytes]:
    """The bytes before the records' length and after the records. All offsets have this value."""
    version, topic, partition, has_aborted = kind
    data = PartitionData(
        partition_index=partition,
        high_watermark=value,
        last_stable_offset=value,
        log_start_offset=value,
        aborted_transactions=[] if has_aborted else None,
        records=_ONE_BYTE,
    )
    told = FetchableTopicResponse(partitions=[data])
    if isinstance(topic, UUID):
        told.topic_id = topic
    else:
        told.topic = topic
    parts: list[bytes] = [response_header_encoder(ApiKey.FETCH, version)(0)]
    encode_parts(FetchResponse(session_id=session_id, responses=[told]), version, parts)
    at = next(index for index, part in enumerate(parts) if part is _ONE_BYTE)
    length = encode_bytes_length(len(_ONE_BYTE), version >= _FIRST_FLEXIBLE)
    return b"".join(parts[:at]).removesuffix(length), b"".join(parts[at + 1 :])
