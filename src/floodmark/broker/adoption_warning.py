"""What people are told when a folder of Apache Kafka has been taken over.

Called by start_report.py. Kafka keeps the settings of topics in ZooKeeper or in
`__cluster_metadata`, not beside their data: so those that were set are not known here, and data may
expire by a default.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from floodmark.config.settings import TOPIC_SETTINGS_BY_NAME


def adoption_warning(topics: Iterable[str], settings: Mapping[str, object], address: str) -> str:
    """`settings` are the defaults that the topics have now, and `address` is this broker's."""
    names = sorted(topics)
    defaults = ", ".join(f"{name}={_text(settings[name])}" for name in TOPIC_SETTINGS_BY_NAME)
    return (
        f"took over {len(names)} topics found in the log folders: {', '.join(names)}. Settings of "
        "their own are not in the files: any of these may have been set, and now stands at the "
        f"broker's default: {defaults}. Set them again before data expires by them, for each topic "
        f"with: floodmark config alter --bootstrap-server {address} --topic {names[0]} "
        "--add-config NAME=VALUE"
    )


def _text(value: object) -> str:
    if isinstance(value, tuple):
        return f"[{','.join(map(str, value))}]"
    return str(value).lower() if isinstance(value, bool) else str(value)
