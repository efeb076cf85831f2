"""Converts settings in Python types to Kafka's texts.

Used by `broker_thread` for broker and topic settings.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

SettingValue = str | int | float | bool | Path


def as_texts(settings: Mapping[str, SettingValue] | None) -> dict[str, str]:
    """Converts `{"log.cleaner.enable": False, "num.partitions": 3}` to properties file texts."""
    return {name: _as_text(name, value) for name, value in (settings or {}).items()}


def _as_text(name: str, value: SettingValue) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float | Path):
        return str(value)
    raise TypeError(
        f"the setting {name} is a {type(value).__name__} ({value!r}): use a str, a number or a "
        "bool; separate list items with commas"
    )
