"""Errors in record bytes.

Raised by every module of this package. Recovery, brokers and clients handle them: brokers return
the error code, clients skip or report the batch.
"""

from __future__ import annotations

from collections.abc import Sequence

from floodmark.wire.errors import ErrorCode


class CorruptRecord(Exception):
    """The data contradicts its header: wrong checksum, wrong length, or invalid compression."""


class UnsupportedMagic(CorruptRecord):
    """A message set of magic 0 or 1, from before Kafka 0.11. Refused, never converted (KIP-724)."""


class DecompressionTooLarge(CorruptRecord):
    """The data decompresses to more bytes or records than allowed: a decompression bomb."""


class InvalidBatch(Exception):
    """A client may not append this batch. Has the error code that Kafka returns."""

    def __init__(
        self, error_code: ErrorCode, text: str, record_errors: Sequence[tuple[int, str]] = ()
    ) -> None:
        super().__init__(text)
        self.error_code = error_code
        self.text = text
        # (index in the batch, reason) of each refused record, for the produce response (KIP-467).
        self.record_errors = record_errors
