"""A broker of a test cluster with sessions that outlive their process, as ZooKeeper's do.

The shared store sees at once that a process has ended, by the lock that the kernel releases. Run as
a program, this module looks at the lease alone.
"""

from __future__ import annotations

import struct
import sys
from pathlib import Path

from floodmark.metadata import session_keeper
from floodmark.testing.cluster.child import main

_LEASE = struct.Struct(">d")


def has_lease(path: Path, now_ms: float) -> bool:
    try:
        lease = path.read_bytes()
    except FileNotFoundError:
        return False
    return len(lease) < _LEASE.size or now_ms < _LEASE.unpack_from(lease)[0]


if __name__ == "__main__":
    setattr(session_keeper, "is_alive", has_lease)  # noqa: B010 - it is imported there
    sys.exit(main())
