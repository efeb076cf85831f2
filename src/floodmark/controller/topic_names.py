"""Validates topic names. PURE; used by topic creation and the Metadata API."""

from __future__ import annotations

import re

MAX_NAME_LENGTH = 249
# KRaft's own log. A folder of that name belongs to Apache Kafka.
RESERVED_TOPIC = "__cluster_metadata"
_LEGAL = re.compile(r"[a-zA-Z0-9._-]+")


def why_invalid(name: str) -> str | None:
    """What is wrong with the name, in Kafka's wording, or None."""
    reason = None
    if not name:
        reason = "the empty string is not allowed"
    elif name in (".", ".."):
        reason = f"'{name}' is not allowed"
    elif len(name) > MAX_NAME_LENGTH:
        reason = f"the length of '{name}' is longer than the max allowed length {MAX_NAME_LENGTH}"
    elif not _LEGAL.fullmatch(name):
        reason = (
            f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' "
            "and '-'"
        )
    return None if reason is None else f"Topic name is invalid: {reason}"


def metric_name(name: str) -> str:
    """Metrics do not distinguish '.' from '_', so topics must not differ in these alone."""
    return name.replace(".", "_")


def can_collide(name: str) -> bool:
    return "." in name or "_" in name
