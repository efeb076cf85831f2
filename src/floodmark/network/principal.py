"""A client's identity, as ACLs and quotas name it.

On PLAINTEXT listeners everybody is `ANONYMOUS`; TLS and SASL establish the identity.
"""

from __future__ import annotations

from typing import NamedTuple


class Principal(NamedTuple):
    kind: str
    name: str

    def __str__(self) -> str:
        """In the format of ACLs and `super.users`."""
        return f"{self.kind}:{self.name}"


ANONYMOUS = Principal("User", "ANONYMOUS")
