"""What can go wrong for a client, as exceptions that carry Kafka's error code and a text for
people.

Raised by every module of this room; the CLI prints the text, callers that retry look at
`retriable`.
"""

from __future__ import annotations

from floodmark.wire.errors import ErrorCode

# After these the leader or coordinator that was asked is not (or no longer) the right one.
STALE_METADATA_CODES = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.LISTENER_NOT_FOUND,
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.NETWORK_EXCEPTION,
    }
)


class KafkaError(Exception):
    """A request failed with one of Kafka's error codes."""

    def __init__(self, code: int, text: str | None = None) -> None:
        self.code = ErrorCode.of(code)
        self.text = text or self.code.message
        super().__init__(self.text)

    @property
    def retriable(self) -> bool:
        return self.code.retriable

    @property
    def stale_metadata(self) -> bool:
        """Whether asking for metadata again may lead to the right broker."""
        return self.code in STALE_METADATA_CODES

    def __str__(self) -> str:
        return f"{self.text} ({self.code.name})"


class ConnectionFailed(KafkaError):
    """No connection could be made, or it ended before the answer came."""

    def __init__(self, text: str) -> None:
        super().__init__(ErrorCode.NETWORK_EXCEPTION, text)


class RequestTimedOut(KafkaError):
    """No answer, or no success, within the time the caller gave."""

    def __init__(self, text: str) -> None:
        super().__init__(ErrorCode.REQUEST_TIMED_OUT, text)


class UnsupportedApi(KafkaError):
    """The broker and this client have no version of an API in common."""

    def __init__(self, text: str) -> None:
        super().__init__(ErrorCode.UNSUPPORTED_VERSION, text)


class AuthenticationError(KafkaError):
    """The broker does not accept who we are, or is not who it should be. No use in retrying."""

    def __init__(self, text: str, code: int = ErrorCode.SASL_AUTHENTICATION_FAILED) -> None:
        super().__init__(code, text)


class ClientClosed(RuntimeError):
    """The client was closed before or while it was used."""


def error_of(code: int, text: str | None = None) -> KafkaError | None:
    """For answers about many things, of which each has its own code."""
    return KafkaError(code, text) if code != ErrorCode.NONE else None


def raise_for_code(code: int, text: str | None = None) -> None:
    if code != ErrorCode.NONE:
        raise KafkaError(code, text)
