"""Imports modules that a broker needs, but not for starting.

A start imports as little as possible, to serve its first client early. A thread imports the rest
right after, so that the first request of each kind does not wait for it on the loop.
"""

from __future__ import annotations

from importlib import import_module

from floodmark.apis.dispatch import SERVED
from floodmark.wire import messages

_SERVICES = (
    "floodmark.coordinators.groups.service",
    "floodmark.coordinators.transactions.service",
    "floodmark.storage.compaction.cleaner",
)


def preload() -> None:
    for api_key in SERVED:
        import_module(f"floodmark.apis.handlers.{api_key.name.lower()}")
        messages.request_class(api_key)
    for name in _SERVICES:
        import_module(name)
