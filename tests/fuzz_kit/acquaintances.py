"""Whom the fuzz has met: members of groups, producers and fetch sessions that the broker knows.

Without them every such request would end at the first check. The broker's answers bring them, and
later requests are made in their name. There is a fixed number of places, and one is taken whether
or not somebody stands there: how much chance a request uses does not depend on what was answered.
"""

from __future__ import annotations

from functools import lru_cache
from random import Random
from typing import Any

from floodmark.wire.schema import schema_of

PLACES = 6
SHARE = 0.6

Known = tuple[tuple[str, Any], ...]


class Acquaintances:
    """One for all workers: a member may be spoken for from several connections at a time."""

    def __init__(self) -> None:
        self._places: dict[str, list[Known]] = {
            kind: [()] * PLACES for kind in ("member", "producer", "session")
        }
        self._next = 0

    @property
    def never_met(self) -> list[str]:
        """Of which kind nobody is known."""
        return [kind for kind, places in self._places.items() if not any(places)]

    def introduce(self, random: Random, message: Any, version: int) -> None:
        """Lets some requests speak in the name of somebody known."""
        for kind, places in self._places.items():
            chosen = places[random.randrange(PLACES)]
            if random.random() >= SHARE:
                continue
            if kind == "producer" and getattr(message, "transactions", None):
                _fill(message.transactions[0], version, chosen)
            _fill(message, version, chosen)

    def learn(self, request: Any, response: Any) -> None:
        session_id = getattr(response, "session_id", 0)
        if session_id:
            self._keep("session", (("session_id", session_id), ("session_epoch", 1)))
        if getattr(response, "producer_id", -1) >= 0 and hasattr(request, "transactional_id"):
            self._keep("producer", _producer(request, response))
        if getattr(response, "member_id", ""):
            self._keep("member", _member(request, response))

    def _keep(self, kind: str, known: Known) -> None:
        self._places[kind][self._next % PLACES] = known
        self._next += 1


def _fill(message: Any, version: int, known: Known) -> None:
    cls: Any = type(message)
    names = _fields(cls, version)
    for name, value in known:
        if name in names:
            setattr(message, name, value)


@lru_cache(maxsize=1000)
def _fields(cls: Any, version: int) -> frozenset[str]:
    return frozenset(field.name for field in schema_of(cls).fields if field.exists_in(version))


def _producer(request: Any, response: Any) -> Known:
    known: list[tuple[str, Any]] = []
    for prefix in ("", "v3_and_below_"):
        known += [
            (f"{prefix}producer_id", response.producer_id),
            (f"{prefix}producer_epoch", response.producer_epoch),
        ]
        if request.transactional_id is not None:
            known.append((f"{prefix}transactional_id", request.transactional_id))
    return tuple(known)


def _member(request: Any, response: Any) -> Known:
    """The generation of a classic group, or the epoch of a member in one of the new protocol."""
    epoch = getattr(response, "member_epoch", getattr(response, "generation_id", -1))
    return (
        ("group_id", request.group_id),
        ("member_id", response.member_id),
        ("generation_id", epoch),
        ("generation_id_or_member_epoch", epoch),
        ("member_epoch", max(epoch, 0)),
    )
