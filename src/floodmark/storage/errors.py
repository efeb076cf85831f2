"""What the log refuses and what a disk can do to it.

Raised by this room, turned into answers by replication and the APIs: each carries the error code
that Kafka gives.
"""

from __future__ import annotations

import errno
from pathlib import Path
from typing import ClassVar, Final

from floodmark.storage.folder_names import parse_directory_name
from floodmark.wire.errors import ErrorCode


class StorageError(Exception):
    """The disk did not do what the log asked of it."""

    error_code: ClassVar[ErrorCode] = ErrorCode.KAFKA_STORAGE_ERROR


class DiskFull(StorageError):
    """No space left; the log stands as it stood before and goes on when there is space again."""


class LogDirFailure(StorageError):
    """A log folder cannot be trusted any more; its partitions go offline, others stay."""

    def __init__(self, directory: Path, text: str) -> None:
        super().__init__(f"{directory}: {text}")
        self.directory = directory


class TooManyFiles(StorageError):
    """The process may open no more files; what is open goes on."""


class LogClosed(StorageError):
    """The log has been closed or deleted; who still asks has lost a race."""


class UnsupportedLogFormat(StorageError):
    """The log holds message sets from before Kafka 0.11; it is left as it is."""


class LogDirLocked(StorageError):
    """Another process uses the log folder."""


class InconsistentTopicId(StorageError):
    """The folder belongs to an earlier topic of the same name."""

    error_code = ErrorCode.INCONSISTENT_TOPIC_ID


class OffsetOutOfRange(Exception):
    """A read below the log start or above the log end."""

    error_code: ClassVar[ErrorCode] = ErrorCode.OFFSET_OUT_OF_RANGE


class OffsetsOutOfOrder(Exception):
    """A leader sent a follower batches that do not follow the end of its log."""

    error_code: ClassVar[ErrorCode] = ErrorCode.UNKNOWN_SERVER_ERROR


class AppendRefused(Exception):
    """The producer's state forbids this batch."""

    error_code: ClassVar[ErrorCode]


class OutOfOrderSequence(AppendRefused):
    """A gap or a step back in a producer's sequence numbers."""

    error_code = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


class InvalidProducerEpoch(AppendRefused):
    """A newer producer with the same id has written here."""

    error_code = ErrorCode.INVALID_PRODUCER_EPOCH


class InvalidTransactionState(AppendRefused):
    """A batch outside a transaction from a producer whose transaction is open here."""

    error_code = ErrorCode.INVALID_TXN_STATE


class CoordinatorFenced(AppendRefused):
    """A marker of a transaction coordinator that has been replaced."""

    error_code = ErrorCode.TRANSACTION_COORDINATOR_FENCED


_FULL_DISK: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
_NO_MORE_FILES: Final = frozenset({errno.EMFILE, errno.ENFILE})
# Somebody has put something else where a file or a folder of ours belongs: the disk is sound.
_MISPLACED: Final = frozenset({errno.EEXIST, errno.EISDIR, errno.ENOTDIR, errno.ELOOP})
# Perhaps a broker ran here as another user once, or somebody has removed the file.
_NOT_TO_BE_HAD: Final = frozenset({errno.EACCES, errno.EPERM, errno.ENOENT})


def storage_failure(error: OSError, log_dir: Path, what: str) -> StorageError:
    """How bad it is: what passes by itself must not take a whole log folder offline."""
    if error.errno in _FULL_DISK:
        return DiskFull(f"{log_dir}: {what}: no space left on the disk")
    if error.errno in _NO_MORE_FILES:
        return TooManyFiles(f"{log_dir}: {what}: raise the limit of open files (ulimit -n)")
    if error.errno in _MISPLACED or (
        error.errno in _NOT_TO_BE_HAD and _in_partition(error, log_dir)
    ):
        return StorageError(f"{log_dir}: {what}: {error}")
    return LogDirFailure(log_dir, f"{what}: {error}")


def told_to_clients(problem: StorageError | OSError) -> str:
    """What went wrong, without the paths of our disk: those are for the operator, in our log."""
    if isinstance(problem, DiskFull):
        return "no space is left on the disk of the broker"
    if isinstance(problem, TooManyFiles):
        return "the broker may open no more files"
    return "the disk of the broker failed; its log says why"


def _in_partition(error: OSError, log_dir: Path) -> bool:
    """Whether it is about the folder of a partition, and not about `log_dir` and its own files."""
    if not isinstance(error.filename, str):
        return False
    try:
        parse_directory_name(Path(error.filename).relative_to(log_dir).parts[0])
    except (ValueError, IndexError):
        return False
    return True
