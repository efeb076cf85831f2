"""A simulated network: messages arrive late, twice, out of order or never.

Nothing moves by itself: the simulator picks the next message to arrive.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from floodmark.testing.simulation.messages import Message

MAX_IN_FLIGHT = 100
"""A fuller network drops its oldest messages. Bounds memory and the age of messages."""


@dataclass(slots=True)
class SimulatedNetwork:
    in_flight: list[Message] = field(default_factory=list)
    cut_links: list[tuple[int, int]] = field(default_factory=list)

    def send(self, message: Message) -> None:
        self.in_flight.append(message)
        if len(self.in_flight) > MAX_IN_FLIGHT:
            del self.in_flight[0]

    def take(self, random: Random) -> Message:
        """Picks a message, preferring older ones."""
        return self.in_flight.pop(int(random.random() ** 2 * len(self.in_flight)))

    def take_first(self) -> Message:
        return self.in_flight.pop(0)

    def forget(self, is_lost: Callable[[Message], bool]) -> None:
        self.in_flight = [message for message in self.in_flight if not is_lost(message)]

    def is_cut(self, one: int, other: int) -> bool:
        return (min(one, other), max(one, other)) in self.cut_links

    def cut(self, one: int, other: int) -> None:
        if not self.is_cut(one, other):
            self.cut_links.append((min(one, other), max(one, other)))
