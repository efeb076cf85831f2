"""How the timer of a member is named. PURE; used for classic and for consumer groups."""

from __future__ import annotations


def timer_key(kind: str, group_id: str, member_id: str) -> str:
    """Clients choose both ids. The length says where one ends: else the member `b:c` of the group
    `a` would share its timer with the member `c` of the group `a:b`."""
    return f"{kind}:{len(group_id)}:{group_id}:{member_id}"
