"""PURE: picks the provider for a call: random, roundrobin or leastactive, all by weight."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from floodmark.service.errors import ConfigError
from floodmark.service.url import URL

DEFAULT_WEIGHT = 100
DEFAULT_WARMUP_MS = 600_000

Chance = Callable[[int], int]
"""A random number from 0 up to, but not including, its argument."""


class Candidate(Protocol):
    """A provider to choose from."""

    url: URL
    active: int


class Balancer(Protocol):
    def choose(self, candidates: Sequence[Candidate], method: str, now_ms: int) -> Candidate: ...


def weight_of(url: URL, method: str, now_ms: int) -> int:
    """A provider's weight. One that has just started gets its share gradually."""
    text = url.method_parameter(method, "weight")
    weight = int(text) if text.isdecimal() else DEFAULT_WEIGHT
    started_ms = url.get_int("timestamp", 0)
    warmup_ms = url.get_int("warmup", DEFAULT_WARMUP_MS)
    up_ms = now_ms - started_ms
    if weight > 0 and started_ms > 0 and 0 < up_ms < warmup_ms:
        return min(weight, max(1, up_ms * weight // warmup_ms))
    return max(0, weight)


class RandomBalancer:
    def __init__(self, chance: Chance) -> None:
        self._chance = chance

    def choose(self, candidates: Sequence[Candidate], method: str, now_ms: int) -> Candidate:
        weights = [weight_of(item.url, method, now_ms) for item in candidates]
        total = sum(weights)
        if not total or len(set(weights)) == 1:
            return candidates[self._chance(len(candidates))]
        number = self._chance(total)
        for candidate, weight in zip(candidates, weights, strict=True):
            number -= weight
            if number < 0:
                return candidate
        raise AssertionError("a number below the total always has an owner")


class RoundRobinBalancer:
    """Smooth: all gain their weight, and the highest is picked and pays the total."""

    def __init__(self) -> None:
        self._current: dict[str, dict[str, int]] = {}

    def choose(self, candidates: Sequence[Candidate], method: str, now_ms: int) -> Candidate:
        before = self._current.get(method, {})
        total, best, best_value = 0, candidates[0], -1
        current: dict[str, int] = {}
        for candidate in candidates:
            weight = weight_of(candidate.url, method, now_ms)
            total += weight
            value = current[candidate.url.address] = before.get(candidate.url.address, 0) + weight
            if value > best_value:
                best, best_value = candidate, value
        current[best.url.address] -= total
        self._current[method] = current
        return best


class LeastActiveBalancer:
    """Picks the provider with the fewest calls in progress; among equals, by weight."""

    def __init__(self, chance: Chance) -> None:
        self._random = RandomBalancer(chance)

    def choose(self, candidates: Sequence[Candidate], method: str, now_ms: int) -> Candidate:
        fewest = min(item.active for item in candidates)
        least = [item for item in candidates if item.active == fewest]
        return self._random.choose(least, method, now_ms)


def balancer(name: str, chance: Chance) -> Balancer:
    if name == "random":
        return RandomBalancer(chance)
    if name == "roundrobin":
        return RoundRobinBalancer()
    if name == "leastactive":
        return LeastActiveBalancer(chance)
    raise ConfigError(f"loadbalance {name!r} is unknown: use random, roundrobin or leastactive")
