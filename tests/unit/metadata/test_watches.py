"""Watchers hear what they watch, and nodes that nobody watches cost next to nothing."""

from __future__ import annotations

from floodmark.metadata.store import EventKind, WatchEvent
from floodmark.metadata.watches import Watches


class CountingPath(str):
    """A path that counts how often it is compared with a watched one."""

    __slots__ = ()
    comparisons = 0

    def __eq__(self, other: object) -> bool:
        CountingPath.comparisons += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


def created(*paths: str) -> list[WatchEvent]:
    return [WatchEvent(EventKind.CREATED, path) for path in paths]


def test_a_watcher_hears_of_its_node_and_of_what_lies_below_and_of_nothing_else() -> None:
    watches, heard = Watches(), []
    watches.add("/a", lambda event: heard.append(event.path))
    watches.fire(created("/a", "/a/b/c", "/ab", "/b/a", "/"))
    assert heard == ["/a", "/a/b/c"]


def test_a_watcher_of_the_root_hears_of_everything() -> None:
    watches, heard = Watches(), []
    watches.add("/", lambda event: heard.append(event.path))
    watches.fire(created("/", "/a", "/a/b"))
    assert heard == ["/", "/a", "/a/b"]


def test_a_watcher_that_is_removed_hears_nothing_and_its_neighbour_still_does() -> None:
    watches, heard = Watches(), []
    remove = watches.add("/a", lambda event: heard.append("first"))
    watches.add("/a", lambda event: heard.append("second"))
    remove()
    watches.fire(created("/a"))
    assert heard == ["second"]


def test_nodes_that_nobody_watches_are_not_compared_with_every_watched_path() -> None:
    """A request for 10,000 partitions makes 20,000 nodes, which stopped the loop for 100 ms."""
    watches, heard = Watches(), []
    for number in range(15):
        watches.add(f"/watched/{number}", heard.append)
    CountingPath.comparisons = 0
    watches.fire(created(*(CountingPath(f"/other/{number}") for number in range(100))))
    assert not heard
    assert CountingPath.comparisons == 0
