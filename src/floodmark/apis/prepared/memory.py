"""What a connection has prepared, and how long it stays valid.

Stored in `Peer.prepared`. `apis.dispatch` checks it for each frame; `prepared.produces` and
`prepared.fetch_answers` add to it. A memory is valid for one generation: a change of ACLs or quotas
ends the generation, and with it everything prepared before.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from floodmark.network.request_channel import Outcome

if TYPE_CHECKING:
    from floodmark.apis.context import RequestContext
    from floodmark.apis.prepared.fetch_answers import Kind, Prepared
    from floodmark.apis.prepared.produces import PreparedProduces


class Generation:
    """Counts the changes that invalidate prepared requests. One per broker, in `Services`."""

    __slots__ = ("number",)

    def __init__(self) -> None:
        self.number = 0

    def end(self) -> None:
        """Invalidates every request prepared before this call."""
        self.number += 1


class Memory:
    """The prepared requests and responses of one connection."""

    __slots__ = ("_produces", "fetch_answers", "generation", "outcome_of")

    def __init__(self, generation: int) -> None:
        self.generation = generation
        self._produces: PreparedProduces | None = None
        self.fetch_answers: dict[Kind, Prepared] = {}
        # A slot and not a method: every produce uses it, and a method would add a call.
        self.outcome_of: Callable[[memoryview], Outcome] | None = None
        """Returns the outcome of a prepared produce, or None for any other request."""

    @property
    def produces(self) -> PreparedProduces | None:
        return self._produces

    @produces.setter
    def produces(self, produces: PreparedProduces) -> None:
        self._produces = produces
        self.outcome_of = produces.outcome_of


def memory_of(context: RequestContext) -> Memory:
    """The memory of the request's connection. A new one if its generation has ended."""
    memory, generation = context.peer.prepared, context.services.generation.number
    if isinstance(memory, Memory) and memory.generation == generation:
        return memory
    context.peer.prepared = memory = Memory(generation)
    return memory
