"""What can go wrong with keys, certificates and credentials. PURE."""

from __future__ import annotations


class SecurityError(ValueError):
    """A key, certificate or security setting cannot be used. `hint` says what to do next."""

    def __init__(self, text: str, hint: str = "") -> None:
        super().__init__(text)
        self.hint = hint


class AuthenticationFailed(Exception):
    """A peer could not prove who it is. The text is for the peer and holds no secret."""


class ProtocolViolation(AuthenticationFailed):
    """A peer does not follow the mechanism. Its text is for our log, not for the peer."""
