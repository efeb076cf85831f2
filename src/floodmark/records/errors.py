"""What can be wrong with record bytes.

Raised by every module of this room; storage lets them through to recovery, brokers answer the error
code, clients skip or report.
"""

from __future__ import annotations

from collections.abc import Sequence

from floodmark.wire.errors import ErrorCode


class CorruptRecord(Exception):
    """The bytes are not what their header says: wrong checksum, lying length, or broken
    compression."""


class UnsupportedMagic(CorruptRecord):
    """A message set of magic 0 or 1, from before Kafka 0.11: it is refused, never converted
    (KIP-724)."""


class DecompressionTooLarge(CorruptRecord):
    """The data would unpack to more bytes or records than the caller allows: a decompression
    bomb."""


class InvalidBatch(Exception):
    """A batch that a client may not append, with the error code that Kafka answers."""

    def __init__(
        self, error_code: ErrorCode, text: str, record_errors: Sequence[tuple[int, str]] = ()
    ) -> None:
        super().__init__(text)
        self.error_code = error_code
        self.text = text
        # (index in the batch, why) of each refused record, for the produce response (KIP-467).
        self.record_errors = record_errors
