"""Errors of the log and the disk.

Raised in this package, and turned into responses by replication and the APIs. Each carries Kafka's
error code.
"""

from __future__ import annotations

import errno
from pathlib import Path
from typing import ClassVar, Final

from floodmark.storage.folder_names import parse_directory_name
from floodmark.wire.errors import ErrorCode


class StorageError(Exception):
    """A disk operation failed."""

    error_code: ClassVar[ErrorCode] = ErrorCode.KAFKA_STORAGE_ERROR


class DiskFull(StorageError):
    """No space left. The log is unchanged and continues once there is space."""


class LogDirFailure(StorageError):
    """A log folder is no longer reliable. Its partitions go offline, others stay."""

    def __init__(self, directory: Path, text: str) -> None:
        super().__init__(f"{directory}: {text}")
        self.directory = directory


class TooManyFiles(StorageError):
    """The process cannot open more files. Open ones keep working."""


class LogClosed(StorageError):
    """The log has been closed or deleted; the caller lost a race."""


class UnsupportedLogFormat(StorageError):
    """The log holds message sets from before Kafka 0.11, and is left unchanged."""


class LogDirLocked(StorageError):
    """Another process uses the log folder."""


class InconsistentTopicId(StorageError):
    """The folder belongs to an earlier topic of the same name."""

    error_code = ErrorCode.INCONSISTENT_TOPIC_ID


class OffsetOutOfRange(Exception):
    """A read below the log start or above the log end."""

    error_code: ClassVar[ErrorCode] = ErrorCode.OFFSET_OUT_OF_RANGE


class OffsetsOutOfOrder(Exception):
    """A leader sent batches that do not continue the follower's log."""

    error_code: ClassVar[ErrorCode] = ErrorCode.UNKNOWN_SERVER_ERROR


class AppendRefused(Exception):
    """The producer's state forbids this batch."""

    error_code: ClassVar[ErrorCode]


class OutOfOrderSequence(AppendRefused):
    """A gap or step back in a producer's sequence numbers."""

    error_code = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


class InvalidProducerEpoch(AppendRefused):
    """A newer producer with the same id has written here."""

    error_code = ErrorCode.INVALID_PRODUCER_EPOCH


class InvalidTransactionState(AppendRefused):
    """A non-transactional batch from a producer with an open transaction here."""

    error_code = ErrorCode.INVALID_TXN_STATE


class CoordinatorFenced(AppendRefused):
    """A marker from a replaced transaction coordinator."""

    error_code = ErrorCode.TRANSACTION_COORDINATOR_FENCED


_FULL_DISK: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
_NO_MORE_FILES: Final = frozenset({errno.EMFILE, errno.ENFILE})
# Something else is in place of our file or folder, but the disk is fine.
_MISPLACED: Final = frozenset({errno.EEXIST, errno.EISDIR, errno.ENOTDIR, errno.ELOOP})
# A broker may have run as another user, or someone removed the file.
_NOT_TO_BE_HAD: Final = frozenset({errno.EACCES, errno.EPERM, errno.ENOENT})


def storage_failure(error: OSError, log_dir: Path, what: str) -> StorageError:
    """Classifies an error: a temporary one must not take a whole log folder offline."""
    if error.errno in _FULL_DISK:
        return DiskFull(f"{log_dir}: {what}: no space left on the disk")
    if error.errno in _NO_MORE_FILES:
        return TooManyFiles(f"{log_dir}: {what}: raise the open file limit (ulimit -n)")
    if error.errno in _MISPLACED or (
        error.errno in _NOT_TO_BE_HAD and _in_partition(error, log_dir)
    ):
        return StorageError(f"{log_dir}: {what}: {error}")
    return LogDirFailure(log_dir, f"{what}: {error}")


def told_to_clients(problem: StorageError | OSError) -> str:
    """The failure without local paths, which belong only in our log."""
    if isinstance(problem, DiskFull):
        return "the broker's disk is full"
    if isinstance(problem, TooManyFiles):
        return "the broker cannot open more files"
    return "the broker's disk failed; see its log"


def _in_partition(error: OSError, log_dir: Path) -> bool:
    """Whether it concerns a partition's folder rather than `log_dir` and its own files."""
    if not isinstance(error.filename, str):
        return False
    try:
        parse_directory_name(Path(error.filename).relative_to(log_dir).parts[0])
    except (ValueError, IndexError):
        return False
    return True
