"""Names of member timers. PURE; used for classic and consumer groups."""

from __future__ import annotations


def timer_key(kind: str, group_id: str, member_id: str) -> str:
    """Clients choose both ids.

    The length separates them: otherwise member `b:c` of group `a` would share its timer with member
    `c` of group `a:b`.
    """
    return f"{kind}:{len(group_id)}:{group_id}:{member_id}"
