"""Resolves subscriptions: names, patterns, ids, and a hash of the topics' metadata. PURE."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from hashlib import blake2b
from typing import Final, NamedTuple
from uuid import UUID

from floodmark.coordinators.patterns import InvalidPattern, full_match_of
from floodmark.coordinators.ports import CoordinatorError
from floodmark.metadata.image import MetadataImage
from floodmark.wire.errors import ErrorCode


def matching_topics(pattern: str, topics: Iterable[str]) -> frozenset[str]:
    """The topics whose full name matches. Raises INVALID_REGULAR_EXPRESSION."""
    try:
        matches = full_match_of(pattern)
    except InvalidPattern as problem:
        raise _invalid(pattern[:100], str(problem)) from problem
    return frozenset(filter(matches, topics))


class Matched(NamedTuple):
    """The topics that each pattern matches in one version of the topics."""

    topics_version: int
    topics: Mapping[str, frozenset[str]]


NOTHING_MATCHED: Final = Matched(-1, {})


def match_all(patterns: Iterable[str], topics: Collection[str], topics_version: int) -> Matched:
    """Leaves out what is not a valid pattern."""
    found = {}
    for pattern in patterns:
        with suppress(CoordinatorError):
            found[pattern] = matching_topics(pattern, topics)
    return Matched(topics_version, found)


def _invalid(pattern: str, why: str) -> CoordinatorError:
    return CoordinatorError(
        ErrorCode.INVALID_REGULAR_EXPRESSION,
        f"SubscribedTopicRegex `{pattern}` is not a valid regular expression: {why}.",
    )


def topic_ids(topics: Iterable[str], image: MetadataImage) -> frozenset[UUID]:
    """The ids of existing topics."""
    known = image.topics
    return frozenset(known[topic].topic_id for topic in topics if topic in known)


def metadata_hash(topics: Iterable[str], image: MetadataImage) -> int:
    """Changes when a topic is created, deleted, recreated or grown: the group is then reassigned.

    0 for no topics. The number has no other meaning (KIP-1101).
    """
    known = sorted(topic for topic in topics if topic in image.topics)
    if not known:
        return 0
    digest = blake2b(digest_size=8)
    for name in known:
        topic = image.topics[name]
        digest.update(topic.topic_id.bytes)
        digest.update(len(topic.partitions).to_bytes(4, "big"))
    return int.from_bytes(digest.digest(), "big", signed=True)
