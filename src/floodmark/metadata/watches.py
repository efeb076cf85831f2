"""Registry of watchers and the changes they want; shared by the stores of one process."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from floodmark.metadata.store import EventKind, Watcher, WatchEvent


class Watches:
    def __init__(self) -> None:
        self._watchers: list[tuple[str, Watcher]] = []
        # The watched paths, with a slash at the end.
        self._folders: tuple[str, ...] = ()

    def add(self, path: str, watcher: Watcher) -> Callable[[], None]:
        entry = (path, watcher)
        self._watchers.append(entry)
        self._list_folders()

        def remove() -> None:
            if entry in self._watchers:
                self._watchers.remove(entry)
                self._list_folders()

        return remove

    def _list_folders(self) -> None:
        self._folders = tuple({path.rstrip("/") + "/" for path, _ in self._watchers})

    def fire(self, events: Iterable[WatchEvent]) -> None:
        for event in events:
            # A request can create 20,000 nodes, most of which nobody watches.
            if not (event.path + "/").startswith(self._folders):
                continue
            for path, watcher in tuple(self._watchers):
                if path in (event.path, "/") or event.path.startswith(path + "/"):
                    watcher(event)

    def fire_all(self) -> None:
        """Notifies all watchers, because it is unknown what has changed."""
        for path, watcher in tuple(self._watchers):
            watcher(WatchEvent(EventKind.CHANGED, path))
