"""Errors of keys, certificates and credentials. PURE."""

from __future__ import annotations


class SecurityError(ValueError):
    """A key, certificate or security setting is unusable. `hint` says what to do next."""

    def __init__(self, text: str, hint: str = "") -> None:
        super().__init__(text)
        self.hint = hint


class AuthenticationFailed(Exception):
    """A peer failed to authenticate. The text is for the peer and contains no secret."""


class ProtocolViolation(AuthenticationFailed):
    """A peer violates the mechanism's protocol. The text is for our log, not for the peer."""
