"""Who gets a call: by weight, in turn, or who has the fewest under way."""

import random
from collections import Counter
from dataclasses import dataclass

import pytest

from floodmark.service.balancing import Candidate, balancer, weight_of
from floodmark.service.errors import ConfigError
from floodmark.service.url import URL


@dataclass
class Fake:
    url: URL
    active: int = 0


def candidates(*weights: int) -> list[Candidate]:
    return [
        Fake(URL("dubbo", f"10.0.0.{i}", 1, "p", {"weight": str(weight)}))
        for i, weight in enumerate(weights)
    ]


def shares(name: str, offered: list[Candidate], calls: int = 600) -> list[int]:
    chosen = balancer(name, random.Random(1).randrange)
    counts = Counter(id(chosen.choose(offered, "m", 0)) for _ in range(calls))
    return [counts[id(item)] for item in offered]


def test_round_robin_is_exact() -> None:
    assert shares("roundrobin", candidates(100, 200, 300)) == [100, 200, 300]


def test_random_goes_by_weight() -> None:
    first, second, third = shares("random", candidates(0, 100, 300))
    assert first == 0 and 2 * second < third


def test_least_active_takes_the_idle_one() -> None:
    offered = candidates(100, 100, 100)
    offered[0].active = offered[2].active = 2
    assert shares("leastactive", offered, 20) == [0, 20, 0]


def test_a_new_provider_warms_up() -> None:
    url = URL("dubbo", "h", 1, "p", {"timestamp": "1000", "weight": "100"})
    assert weight_of(url, "m", 1000 + 60_000) == 10
    assert weight_of(url, "m", 1000 + 600_000) == 100
    assert weight_of(url.with_parameters({"m.weight": "7"}), "m", 10_000_000) == 7


def test_unknown_names_are_errors() -> None:
    with pytest.raises(ConfigError, match="use random"):
        balancer("fastest", random.Random(1).randrange)
