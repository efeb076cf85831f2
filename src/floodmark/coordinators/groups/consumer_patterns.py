"""Subscriptions by pattern (KIP-848): which topics they match, and when to look again. PURE.

Used by `consumer.py`, and by `service.py`, which has slow patterns matched in a thread first.
"""

from __future__ import annotations

from floodmark.coordinators.groups import consumer_records as records_of
from floodmark.coordinators.groups.consumer_change import Change
from floodmark.coordinators.groups.consumer_group import ConsumerGroup, ResolvedRegex
from floodmark.coordinators.groups.group_kinds import Groups
from floodmark.coordinators.groups.settings import Surroundings


class ConsumerPatterns:
    def __init__(self, groups: Groups, surroundings: Surroundings) -> None:
        self._groups = groups
        self._surroundings = surroundings

    def must_resolve(self, change: Change, now_ms: int) -> bool:
        group, pattern = change.group, change.updated.topic_regex
        is_stale = group.checked_version != self._surroundings.topics_version
        return (
            pattern != change.member.topic_regex
            or (is_stale and bool(group.regexes or pattern))
            or self._is_any_due(group, now_ms)
        )

    def resolve(self, change: Change, now_ms: int) -> bool:
        """Matches all patterns of the group, with the topics that this client may describe.

        Returns whether that, or the member's pattern, changed. As in Kafka, the rights of the
        client that causes the match count for the whole group.
        """
        group = change.group
        wanted = {m.topic_regex for m in change.members().values() if m.topic_regex}
        version = self._surroundings.topics_version
        resolved: dict[str, ResolvedRegex] = {}
        is_changed = change.updated.topic_regex != change.member.topic_regex
        for pattern in sorted(wanted):
            found = self._surroundings.topics_matching(pattern)
            matched = frozenset(filter(change.may_describe, found))
            old = group.regexes.get(pattern)
            is_same = old is not None and old.topics == matched
            if old is not None and is_same and not self._is_due(old, now_ms):
                resolved[pattern] = old
                continue
            resolved[pattern] = ResolvedRegex(matched, version, now_ms)
            change.records.append(records_of.regex(group.group_id, pattern, resolved[pattern]))
            is_changed |= not is_same
        for pattern in group.regexes:
            if pattern not in wanted:
                change.records.append(records_of.regex(group.group_id, pattern, None))
        change.regexes = resolved
        return is_changed

    def to_match(self, group_id: str, member_id: str, asked: str | None, now_ms: int) -> set[str]:
        """The patterns that the next heartbeat matches for this member, who asks for this pattern
        or for none."""
        group = self._groups.get(group_id)
        if not isinstance(group, ConsumerGroup):
            return {asked} if asked else set()
        member = group.members.get(member_id)
        if (
            group.checked_version == self._surroundings.topics_version
            and (asked is None or (member is not None and member.topic_regex == asked))
            and not self._is_any_due(group, now_ms)
        ):
            return set()
        return {*group.regexes, asked} if asked else {*group.regexes}

    def _is_any_due(self, group: ConsumerGroup, now_ms: int) -> bool:
        return any(self._is_due(resolved, now_ms) for resolved in group.regexes.values())

    def _is_due(self, resolved: ResolvedRegex, now_ms: int) -> bool:
        """Whether to match the pattern again although no topic has come or gone."""
        interval_ms = self._surroundings.settings.consumer_regex_refresh_interval_ms
        return now_ms >= resolved.timestamp_ms + interval_ms
