"""The warning logged after adopting a folder of Apache Kafka.

Called by start_report.py. Kafka keeps topic settings in ZooKeeper or in `__cluster_metadata`, not
next to the data. So earlier topic settings are unknown here, and data may expire by a default.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from floodmark.config.settings import TOPIC_SETTINGS_BY_NAME


def adoption_warning(topics: Iterable[str], settings: Mapping[str, object], address: str) -> str:
    """`settings` holds the topics' current defaults, `address` is this broker's."""
    names = sorted(topics)
    defaults = ", ".join(f"{name}={_text(settings[name])}" for name in TOPIC_SETTINGS_BY_NAME)
    return (
        f"adopted {len(names)} topics found in the log folders: {', '.join(names)}. Their own "
        "settings are not in the files. Any of these may have been set and is now at the "
        f"broker's default: {defaults}. Set them again before data expires, for each topic "
        f"with: floodmark config alter --bootstrap-server {address} --topic {names[0]} "
        "--add-config NAME=VALUE"
    )


def _text(value: object) -> str:
    if isinstance(value, tuple):
        return f"[{','.join(map(str, value))}]"
    return str(value).lower() if isinstance(value, bool) else str(value)
