"""An in-memory disk with power loss, torn writes and full disks. Twin of storage.files.RealFiles.

PUBLIC, for testing anything that writes through the files port. It tracks synced and merely written
data separately. `crash` returns an image that a real disk may hold after a power loss at that
moment. `at` rewinds to any earlier operation.
"""

from __future__ import annotations

import errno
import os
import sqlite3
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from random import Random
from typing import Self
from uuid import uuid4

from floodmark.storage.files import Buffer
from floodmark.testing.power_loss import Chance, Choices, Everything, Nothing, Odometer

Operation = tuple[str, tuple[object, ...]]


@dataclass(slots=True)
class Faults:
    """Failure switches. Change them while the code under test runs."""

    # Free space in bytes. A write that does not fit is cut short and fails.
    space_bytes: int | None = None
    read_only: bool = False
    # Method name (append, pread, truncate, fsync, open, rename, ...) -> errno to fail with.
    errors: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class _Node:
    """A file: its content, the synced part, and the writes and truncations since."""

    content: bytearray = field(default_factory=bytearray)
    durable: bytes = b""
    pending: list[bytes | int] = field(default_factory=list)
    modified_ms: int = 0
    number: int = -1


@dataclass(slots=True, eq=False)
class _Folder:
    """A folder: its entries, the synced ones, and the atomic changes since."""

    entries: dict[str, _Node | _Folder] = field(default_factory=dict)
    durable: dict[str, _Node | _Folder] = field(default_factory=dict)
    pending: list[dict[str, _Node | _Folder | None]] = field(default_factory=list)

    def change(self, names: dict[str, _Node | _Folder | None]) -> None:
        _apply_names(self.entries, names)
        self.pending.append(names)


def _apply_names(
    entries: dict[str, _Node | _Folder], names: dict[str, _Node | _Folder | None]
) -> None:
    for name, node in names.items():
        if node is None:
            entries.pop(name, None)
        else:
            entries[name] = node


class MemoryFile:
    """An open file of a MemoryFiles."""

    __slots__ = ("_files", "_is_open", "_node", "path")

    def __init__(self, files: MemoryFiles, path: Path, node: _Node) -> None:
        self._files = files
        self._node = node
        self._is_open = True
        self.path = path

    def append(self, data: Buffer) -> None:
        self._check_open()
        self._files.write(self._node, bytes(data))

    def pread(self, size: int, position: int) -> bytes:
        self._check_open()
        self._files.check("pread")
        return bytes(self._node.content[position : position + size])

    def truncate(self, size: int) -> None:
        self._check_open()
        self._files.cut(self._node, size)

    def size(self) -> int:
        return len(self._node.content)

    def fsync(self) -> None:
        self._check_open()
        self._files.sync(self._node)

    def send_to(self, socket_number: int, size: int, position: int) -> int:
        return 0

    def close(self) -> None:
        self._is_open = False

    def _check_open(self) -> None:
        if not self._is_open:
            raise OSError(errno.EBADF, f"{self.path} is closed")


class _Database:
    """An in-memory SQLite database. It lives as long as this object or an open `uri`."""

    def __init__(self) -> None:
        self.uri = f"file:floodmark-{uuid4().hex}?mode=memory&cache=shared"
        self._anchor = sqlite3.connect(self.uri, uri=True, check_same_thread=False)
        weakref.finalize(self, self._anchor.close)

    def copy(self) -> _Database:
        """Copies the committed data."""
        other = _Database()
        self._anchor.backup(other._anchor)
        return other


class MemoryLock:
    """A held lock file."""

    def __init__(self, release: Callable[[], None]) -> None:
        self._release = release

    def is_in_place(self) -> bool:
        return True

    def close(self) -> None:
        self._release()


class MemoryFiles:
    """An in-memory file system. `operations` counts the changes: the points at which to crash."""

    def __init__(self, faults: Faults | None = None) -> None:
        self.faults = faults or Faults()
        self._root = _Folder()
        self._locks: set[Path] = set()
        self._nodes: list[_Node] = []
        self._journal: list[Operation] = []
        self._databases: dict[Path, _Database] = {}

    # -- the files port

    def open(self, path: Path, *, create: bool = True) -> MemoryFile:
        """Opens a file. Creates a missing one, unless `create` is False."""
        self.check("open")
        node = self._find(path)
        if node is None:
            if not create:
                raise FileNotFoundError(errno.ENOENT, "no such file", str(path))
            self.check_writable()
            if self.faults.space_bytes == 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
            self._do("create", path)
            node = self._find(path)
        if not isinstance(node, _Node):
            raise IsADirectoryError(errno.EISDIR, "is a folder", str(path))
        return MemoryFile(self, path, node)

    def listdir(self, path: Path) -> list[str]:
        """The names in a folder, sorted."""
        return sorted(self._folder(path).entries)

    def exists(self, path: Path) -> bool:
        """Whether there is a file or folder at this path."""
        return self._find(path) is not None

    def is_dir(self, path: Path) -> bool:
        """Whether there is a folder at this path."""
        return isinstance(self._find(path), _Folder)

    def size(self, path: Path) -> int:
        """The size of a file in bytes."""
        return len(self._file(path).content)

    def modified_ms(self, path: Path) -> int:
        """When a file was last written."""
        return self._file(path).modified_ms

    def mkdir(self, path: Path) -> None:
        """Creates a folder and the ones above it."""
        self.check_writable()
        for folder in [*reversed(path.parents), path][1:]:
            if not self.exists(folder):
                self._do("mkdir", folder)

    def rename(self, source: Path, target: Path) -> None:
        """Moves a file or folder. Replaces a file that has the new name."""
        self.check("rename")
        self.check_writable()
        if self._find(source) is None:
            raise FileNotFoundError(errno.ENOENT, "no such file", str(source))
        if source.parent != target.parent:
            raise OSError(errno.EXDEV, "only within a folder", str(target))
        self._do("rename", source, target.name)

    def remove(self, path: Path) -> None:
        """Removes a file or folder. Ignores a missing one."""
        self.check("remove")
        self.check_writable()
        if self.exists(path):
            self._do("remove", path)

    def remove_tree(self, path: Path) -> None:
        """Removes a folder and everything in it."""
        self._folder(path)
        self.remove(path)

    def fsync_dir(self, path: Path) -> None:
        """Makes the names in a folder survive a power loss."""
        self.check("fsync_dir")
        self._folder(path)
        self._do("sync_folder", path)

    def read_file(self, path: Path) -> bytes:
        """The content of a file."""
        self.check("pread")
        return bytes(self._file(path).content)

    def write_file_atomic(self, path: Path, data: Buffer, *, sync: bool = True) -> None:
        """Replaces a file, so that readers see the old or the new content."""
        temporary = path.with_name(path.name + ".tmp")
        file = self.open(temporary)
        file.truncate(0)
        file.append(data)
        if sync:
            file.fsync()
        self.rename(temporary, path)
        if sync:
            self.fsync_dir(path.parent)

    def database(self, path: Path) -> str:
        """The SQLite name of the database at this path."""
        found = self._databases.get(path)
        if found is None:
            found = self._databases[path] = _Database()
        if not self.exists(path):
            self._do("create", path)
            self._do("sync_folder", path.parent)
        return found.uri

    def space(self, path: Path) -> tuple[int, int]:
        """The size of the disk and its free space: unknown."""
        return -1, -1

    def lock(self, path: Path) -> MemoryLock | None:
        """Takes a lock file. None if it is held."""
        if path in self._locks:
            return None
        self.open(path).close()
        self._locks.add(path)
        return MemoryLock(lambda: self._locks.discard(path))

    # -- what open files do

    def check(self, method: str) -> None:
        """Raises the error that `faults` has for this method, if any."""
        number = self.faults.errors.get(method)
        if number is not None:
            raise OSError(number, os.strerror(number))

    def check_writable(self) -> None:
        """Raises OSError if `faults` has made the disk read-only."""
        if self.faults.read_only:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    def write(self, node: _Node, data: bytes) -> None:
        """Appends to a file, as far as `faults` lets it."""
        self.check("append")
        self.check_writable()
        space_bytes = self.faults.space_bytes
        if space_bytes is None or len(data) <= space_bytes:
            self._do("append", node.number, data)
            if space_bytes is not None:
                self.faults.space_bytes = space_bytes - len(data)
            return
        self._do("append", node.number, data[:space_bytes])
        self.faults.space_bytes = 0
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def cut(self, node: _Node, size: int) -> None:
        """Truncates a file."""
        self.check("truncate")
        self.check_writable()
        if size != len(node.content):
            self._do("truncate", node.number, size)

    def sync(self, node: _Node) -> None:
        """Makes the content of a file survive a power loss."""
        self.check("fsync")
        self._do("sync", node.number)

    # -- tests' side

    @property
    def operations(self) -> int:
        """The number of operations so far, for `at`."""
        return len(self._journal)

    def at(self, operations: int) -> Self:
        """The disk after this many operations. Databases keep their current state."""
        rewound = type(self)()
        for name, arguments in self._journal[:operations]:
            rewound._do(name, *arguments)
        rewound._copy_databases(self)
        return rewound

    def crash(self, random: Random | None = None) -> Self:
        """An image the disk may hold after a power loss now.

        Without a random source, it holds only synced data. Databases keep committed data, because
        SQLite syncs each commit.

            image = files.crash()
            with Broker(files=image) as broker: ...
        """
        return self._crash(Nothing() if random is None else Chance(random))

    def crashes(self, limit: int, random: Random) -> Iterator[Self]:
        """All possible images after a power loss now, or a sample if there are more than `limit`.

        A sample includes the images with the least and the most surviving data.
        """
        images = list(islice(self._all_crashes(), limit + 1))
        if len(images) <= limit:
            yield from images
            return
        yield images[0]
        yield self._crash(Everything())
        for _ in range(limit - 2):
            yield self.crash(random)

    def _all_crashes(self) -> Iterator[Self]:
        choices = Odometer()
        while True:
            yield self._crash(choices)
            if not choices.turn():
                return

    def _crash(self, choices: Choices) -> Self:
        image = type(self)()
        image._root = image._image_of(self._root, choices)
        image._copy_databases(self)
        return image

    def _copy_databases(self, source: Self) -> None:
        self._databases = {path: found.copy() for path, found in source._databases.items()}

    def flip_bit(self, path: Path, position: int, bit: int = 0) -> None:
        """Flips a bit silently, like a decaying medium."""
        self._file(path).content[position] ^= 1 << bit

    def tree(self) -> Iterator[tuple[Path, bytes]]:
        """Every file and its content."""
        stack: list[tuple[Path, _Folder]] = [(Path("/"), self._root)]
        while stack:
            path, folder = stack.pop()
            for name, node in folder.entries.items():
                if isinstance(node, _Folder):
                    stack.append((path / name, node))
                else:
                    yield path / name, bytes(node.content)

    def _image_of(self, folder: _Folder, choices: Choices) -> _Folder:
        names = dict(folder.durable)
        # Journaling file systems keep the order of changes in one folder, but nothing guarantees
        # it. So any of them may be lost here.
        for change in folder.pending:
            if choices.pick(2):
                _apply_names(names, change)
        image = _Folder()
        for name, node in names.items():
            if isinstance(node, _Folder):
                image.entries[name] = self._image_of(node, choices)
            else:
                content = _surviving(node, choices)
                survivor = _Node(bytearray(content), content, [], node.modified_ms)
                image.entries[name] = survivor
                self._add(survivor)
        image.durable = dict(image.entries)
        return image

    # -- the operations that `at` replays

    def _do(self, name: str, *arguments: object) -> None:
        self._journal.append((name, arguments))
        getattr(self, f"_op_{name}")(*arguments)

    def _op_create(self, path: Path) -> None:
        node = _Node()
        self._add(node)
        self._folder(path.parent).change({path.name: node})

    def _add(self, node: _Node) -> None:
        node.number = len(self._nodes)
        self._nodes.append(node)

    def _op_mkdir(self, path: Path) -> None:
        self._folder(path.parent).change({path.name: _Folder()})

    def _op_rename(self, source: Path, target_name: str) -> None:
        folder = self._folder(source.parent)
        folder.change({source.name: None, target_name: folder.entries[source.name]})

    def _op_remove(self, path: Path) -> None:
        self._folder(path.parent).change({path.name: None})

    def _op_sync_folder(self, path: Path) -> None:
        folder = self._folder(path)
        folder.durable = dict(folder.entries)
        folder.pending.clear()

    def _op_append(self, number: int, data: bytes) -> None:
        node = self._nodes[number]
        node.content += data
        node.pending.append(data)

    def _op_truncate(self, number: int, size: int) -> None:
        node = self._nodes[number]
        _set_size(node.content, size)
        node.pending.append(size)

    def _op_sync(self, number: int) -> None:
        node = self._nodes[number]
        node.durable = bytes(node.content)
        node.pending.clear()

    def _find(self, path: Path) -> _Node | _Folder | None:
        node: _Node | _Folder | None = self._root
        for name in path.parts[1:]:
            node = node.entries.get(name) if isinstance(node, _Folder) else None
        return node

    def _folder(self, path: Path) -> _Folder:
        node = self._find(path)
        if not isinstance(node, _Folder):
            raise FileNotFoundError(errno.ENOENT, "no such folder", str(path))
        return node

    def _file(self, path: Path) -> _Node:
        node = self._find(path)
        if not isinstance(node, _Node):
            raise FileNotFoundError(errno.ENOENT, "no such file", str(path))
        return node


def _set_size(content: bytearray, size: int) -> None:
    if size < len(content):
        del content[size:]
    else:
        content.extend(bytes(size - len(content)))


def _surviving(node: _Node, choices: Choices) -> bytes:
    """The synced content plus part of the later writes: a prefix, perhaps torn or zero-filled."""
    content = bytearray(node.durable)
    if not node.pending:
        return bytes(content)
    kept = choices.pick(len(node.pending) + 1)
    for change in node.pending[:kept]:
        if isinstance(change, int):
            _set_size(content, change)
        else:
            content += change
    torn = node.pending[kept] if kept < len(node.pending) else b""
    if isinstance(torn, bytes) and len(torn) > 1 and choices.pick(2):
        content += torn[: choices.cut(len(torn))]
    if len(content) > len(node.durable) and not choices.pick(2):
        # The size reached the disk before the data.
        hole = len(node.durable) + choices.cut(len(content) - len(node.durable))
        content[hole:] = bytes(len(content) - hole)
    return bytes(content)
