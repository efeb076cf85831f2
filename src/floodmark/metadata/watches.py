"""Registry of watchers and the changes they want; shared by the stores of one process."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from floodmark.metadata.store import EventKind, Watcher, WatchEvent


class Watches:
    def __init__(self) -> None:
        self._watchers: list[tuple[str, Watcher]] = []

    def add(self, path: str, watcher: Watcher) -> Callable[[], None]:
        entry = (path, watcher)
        self._watchers.append(entry)

        def remove() -> None:
            if entry in self._watchers:
                self._watchers.remove(entry)

        return remove

    def fire(self, events: Iterable[WatchEvent]) -> None:
        if not self._watchers:
            return
        for event in events:
            for path, watcher in tuple(self._watchers):
                if path in (event.path, "/") or event.path.startswith(path + "/"):
                    watcher(event)

    def fire_all(self) -> None:
        """Notifies all watchers, because it is unknown what has changed."""
        for path, watcher in tuple(self._watchers):
            watcher(WatchEvent(EventKind.CHANGED, path))
