"""One request's view of a consumer group. PURE. Made by `consumer.py`."""

from __future__ import annotations

from floodmark.coordinators.groups.client import Client
from floodmark.coordinators.groups.consumer_group import ConsumerGroup, ResolvedRegex
from floodmark.coordinators.groups.consumer_member import Assignment, ConsumerMember
from floodmark.coordinators.groups.records import GroupRecord


class Change:
    """The current state of a group plus the changes so far."""

    __slots__ = (
        "group",
        "group_epoch",
        "may_describe",
        "member",
        "records",
        "regexes",
        "replaced",
        "target",
        "target_epoch",
        "updated",
    )

    def __init__(self, group: ConsumerGroup, records: list[GroupRecord], client: Client) -> None:
        self.group = group
        self.may_describe = client.may_describe
        self.records = records
        self.group_epoch = group.group_epoch
        self.regexes: dict[str, ResolvedRegex] = group.regexes
        self.replaced: ConsumerMember | None = None
        self.member = self.updated = ConsumerMember("")
        self.target_epoch = group.assignment_epoch
        self.target: Assignment = {}

    def members(self) -> dict[str, ConsumerMember]:
        members = dict(self.group.members)
        if self.replaced is not None:
            members.pop(self.replaced.member_id, None)
        members[self.updated.member_id] = self.updated
        return members
