"""PORT: all disk access goes through here.

RealFiles is the operating system. testing.memory_files has a twin with data loss, torn writes and
full disks. Calls block and are not thread-aware: callers that must not block use a thread.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Protocol

Buffer = bytes | bytearray | memoryview


class File(Protocol):
    """An open file that is only appended to, truncated, and read at positions."""

    @property
    def path(self) -> Path: ...
    def append(self, data: Buffer) -> None:
        """Writes all of it or raises OSError.

        After an error the file may hold a part, which the caller truncates.
        """

    def pread(self, size: int, position: int) -> bytes:
        """Up to size bytes; fewer only at the end of the file."""

    def truncate(self, size: int) -> None: ...
    def size(self) -> int: ...
    def fsync(self) -> None:
        """When this returns, the data and what is needed to read it are on disk."""

    def send_to(self, socket_number: int, size: int, position: int) -> int:
        """Sends a range without reading it, as far as the socket accepts it.

        Raises BlockingIOError if it accepts nothing. Returns 0 if this is impossible; reading will
        show why.
        """

    def close(self) -> None: ...


class Lock(Protocol):
    """A held lock file, released by close or when the process ends."""

    def is_in_place(self) -> bool:
        """Whether the file is still the one others would try to lock."""

    def close(self) -> None: ...


class Files(Protocol):
    """The file system as the log needs it."""

    def open(self, path: Path, *, create: bool = True) -> File: ...
    def listdir(self, path: Path) -> list[str]: ...
    def exists(self, path: Path) -> bool: ...
    def is_dir(self, path: Path) -> bool: ...
    def size(self, path: Path) -> int: ...
    def modified_ms(self, path: Path) -> int: ...
    def mkdir(self, path: Path) -> None: ...
    def rename(self, source: Path, target: Path) -> None:
        """Atomic. Replaces an existing target file."""

    def remove(self, path: Path) -> None:
        """Ignores a missing file, because removal is repeated after a crash."""

    def remove_tree(self, path: Path) -> None: ...
    def fsync_dir(self, path: Path) -> None:
        """After this, names created, moved and removed in this folder survive a power loss."""

    def read_file(self, path: Path) -> bytes: ...
    def write_file_atomic(self, path: Path, data: Buffer, *, sync: bool = True) -> None:
        """Readers see the old or the new content.

        Without sync, a power loss may leave either, or an empty file.
        """

    def database(self, path: Path) -> str:
        """The SQLite name of the database at this path. SQLite does its own reading and writing."""

    def space(self, path: Path) -> tuple[int, int]:
        """The size of the folder's disk, and its free space, in bytes."""

    def lock(self, path: Path) -> Lock | None:
        """Takes the lock file for this process. None if another process holds it."""


class RealFile:
    """A file of the operating system, opened with O_APPEND so that writes always go to the end."""

    __slots__ = ("_fd", "path")

    def __init__(self, path: Path, *, create: bool) -> None:
        flags = os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        self.path = path
        self._fd = os.open(path, flags, 0o644)

    def append(self, data: Buffer) -> None:
        written = os.write(self._fd, data)
        if written != len(data):
            self._append_rest(data, written)

    def _append_rest(self, data: Buffer, written: int) -> None:
        """A short write means a signal or a full disk. The next write raises for the latter."""
        view = memoryview(data)
        while written < len(view):
            written += os.write(self._fd, view[written:])

    def pread(self, size: int, position: int) -> bytes:
        data = os.pread(self._fd, size, position)
        if len(data) == size or not data:
            return data
        parts = [data]
        got = len(data)
        while got < size and (data := os.pread(self._fd, size - got, position + got)):
            parts.append(data)
            got += len(data)
        return b"".join(parts)

    def truncate(self, size: int) -> None:
        os.ftruncate(self._fd, size)

    def size(self) -> int:
        return os.fstat(self._fd).st_size

    def fsync(self) -> None:
        os.fdatasync(self._fd)

    def send_to(self, socket_number: int, size: int, position: int) -> int:
        try:
            return os.sendfile(socket_number, self._fd, position, size)
        except BlockingIOError:
            raise
        except OSError:
            return 0

    def close(self) -> None:
        if self._fd >= 0:
            # Reset before closing: the number may be reused at once, and a thread closes files that
            # the loop may be about to read.
            number, self._fd = self._fd, -1
            os.close(number)


class RealLock:
    """An flock on a lock file."""

    __slots__ = ("_fd", "_path")

    def __init__(self, fd: int, path: Path) -> None:
        self._fd = fd
        self._path = path

    def is_in_place(self) -> bool:
        try:
            return os.path.samestat(os.fstat(self._fd), self._path.stat())
        except FileNotFoundError:
            return False

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class RealFiles:
    """The operating system's file system."""

    def open(self, path: Path, *, create: bool = True) -> RealFile:
        return RealFile(path, create=create)

    def listdir(self, path: Path) -> list[str]:
        return sorted(entry.name for entry in path.iterdir())

    def exists(self, path: Path) -> bool:
        return path.exists()

    def is_dir(self, path: Path) -> bool:
        return path.is_dir()

    def size(self, path: Path) -> int:
        return path.stat().st_size

    def modified_ms(self, path: Path) -> int:
        return path.stat().st_mtime_ns // 1_000_000

    def mkdir(self, path: Path) -> None:
        path.mkdir(parents=True, exist_ok=True)

    def rename(self, source: Path, target: Path) -> None:
        source.replace(target)

    def remove(self, path: Path) -> None:
        path.unlink(missing_ok=True)

    def remove_tree(self, path: Path) -> None:
        shutil.rmtree(path)

    def fsync_dir(self, path: Path) -> None:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def read_file(self, path: Path) -> bytes:
        return path.read_bytes()

    def write_file_atomic(self, path: Path, data: Buffer, *, sync: bool = True) -> None:
        temporary = path.with_name(path.name + ".tmp")
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        fd = os.open(temporary, flags, 0o644)
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(fd, view) :]
            if sync:
                os.fsync(fd)
        finally:
            os.close(fd)
        temporary.replace(path)
        if sync:
            self.fsync_dir(path.parent)

    def database(self, path: Path) -> str:
        return str(path.absolute())

    def space(self, path: Path) -> tuple[int, int]:
        usage = shutil.disk_usage(path)
        return usage.total, usage.free

    def lock(self, path: Path) -> RealLock | None:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            return None
        with suppress(OSError):
            # For people and `floodmark broker stop`. A full disk must not prevent the start.
            os.ftruncate(fd, 0)
            os.pwrite(fd, str(os.getpid()).encode(), 0)
        return RealLock(fd, path)


class FileSlice:
    """A range of a log file: a fetch's records until network.transfer sends them.

    `data` holds the contents if they were just written and need not be read again.
    """

    __slots__ = ("data", "file", "position", "size_bytes")

    def __init__(
        self, file: File, position: int, size_bytes: int, data: bytes | None = None
    ) -> None:
        self.file = file
        self.position = position
        self.size_bytes = size_bytes
        self.data = data

    def __len__(self) -> int:
        return self.size_bytes

    def read(self, start: int = 0, size: int | None = None) -> bytes:
        """Reads all of it, or a part."""
        end = self.size_bytes if size is None else start + size
        if self.data is not None:
            return self.data[start:end]
        return self.file.pread(end - start, self.position + start)

    def send_to(self, socket_number: int, start: int, size: int) -> int:
        return self.file.send_to(socket_number, size, self.position + start)

    def let_go(self) -> None:
        """Frees the bytes in memory. They are also in the file."""
        self.data = None
