"""Who a client is, as ACLs and quotas name it.

The listener decides: on PLAINTEXT everybody is `ANONYMOUS`; TLS and SASL establish who it is.
"""

from __future__ import annotations

from typing import NamedTuple


class Principal(NamedTuple):
    kind: str
    name: str

    def __str__(self) -> str:
        """As ACLs and `super.users` write it."""
        return f"{self.kind}:{self.name}"


ANONYMOUS = Principal("User", "ANONYMOUS")
