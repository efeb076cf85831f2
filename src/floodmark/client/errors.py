"""Client exceptions, each with Kafka's error code and a text for people.

Raised throughout this package. The CLI prints the text; callers that retry check `retriable`.
"""

from __future__ import annotations

from floodmark.wire.errors import ErrorCode

# These mean that the leader or coordinator we asked is not, or no longer, the right one.
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
        """Whether repeating the request may help."""
        return self.code.retriable

    @property
    def stale_metadata(self) -> bool:
        """Whether refreshing metadata may find the right broker."""
        return self.code in STALE_METADATA_CODES

    @property
    def reason(self) -> KafkaError:
        """After a timeout, the last refusal; else the error itself."""
        return self

    def __str__(self) -> str:
        return f"{self.text} ({self.code.name})"


class ConnectionFailed(KafkaError):
    """Connecting failed, or the connection closed before the response arrived."""

    def __init__(self, text: str) -> None:
        super().__init__(ErrorCode.NETWORK_EXCEPTION, text)


class RequestTimedOut(KafkaError):
    """No response, or no success, within the caller's time limit."""

    def __init__(self, text: str) -> None:
        super().__init__(ErrorCode.REQUEST_TIMED_OUT, text)

    @property
    def stale_metadata(self) -> bool:
        """A broker that stands still may have lost its partitions to another."""
        return True

    @property
    def reason(self) -> KafkaError:
        return self.__cause__.reason if isinstance(self.__cause__, KafkaError) else self


class UnknownTopic(KafkaError):
    """The cluster has no topic of this name. A new topic is known to all brokers a little later, so
    this is worth a retry."""

    def __init__(self, topic: str) -> None:
        super().__init__(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {topic} does not exist")
        self.topic = topic


class UnsupportedApi(KafkaError):
    """The broker and this client have no version of an API in common."""

    def __init__(self, text: str) -> None:
        super().__init__(ErrorCode.UNSUPPORTED_VERSION, text)


class AuthenticationError(KafkaError):
    """The broker rejected our identity, or could not prove its own. Retrying does not help."""

    def __init__(self, text: str, code: int = ErrorCode.SASL_AUTHENTICATION_FAILED) -> None:
        super().__init__(code, text)


class ClientClosed(RuntimeError):
    """The client was closed before or while it was used."""


def error_of(code: int, text: str | None = None) -> KafkaError | None:
    """For responses with many items, each with its own error code."""
    return KafkaError(code, text) if code != ErrorCode.NONE else None


def raise_for_code(code: int, text: str | None = None) -> None:
    if code != ErrorCode.NONE:
        raise KafkaError(code, text)
