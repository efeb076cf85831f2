"""The test kit: `from floodmark.testing import Broker`. docs/testing.md shows how to use it.

Names load on first use, because pytest imports this package in every project that has floodmark
installed.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from floodmark.testing.broker_thread import Broker
    from floodmark.testing.cluster.cluster import Cluster
    from floodmark.testing.faults import Faults
    from floodmark.testing.memory_files import MemoryFiles
    from floodmark.testing.virtual_clock import VirtualClock

_MODULES = {
    "Broker": "broker_thread",
    "Cluster": "cluster.cluster",
    "Faults": "faults",
    "MemoryFiles": "memory_files",
    "VirtualClock": "virtual_clock",
}

__all__ = ["Broker", "Cluster", "Faults", "MemoryFiles", "VirtualClock"]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
