"""A network namespace with loopback only, for this process and all it starts from now on.

Java consumers replace a provider's 127.* by their own address; where loopback is the only address
that changes nothing, and nothing leaves the machine. Fetch what the network is needed for before.
"""

import ctypes
import functools
import os
import subprocess

from kit.tools import missing, require_tool

_NEW_USER = 0x10000000
_NEW_NETWORK = 0x40000000


@functools.cache
def enter_loopback_namespace() -> None:
    """Once per process; there is no way back."""
    require_tool("ip")
    libc = ctypes.CDLL(None, use_errno=True)
    kinds = [_NEW_NETWORK] if os.geteuid() == 0 else [_NEW_USER | _NEW_NETWORK]
    for kind in kinds:
        if libc.unshare(kind) == 0:
            subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
            return
    missing(f"network namespaces are not allowed here: {os.strerror(ctypes.get_errno())}")
