"""Bounds of settings. Refusals use the wording of Kafka's tools."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Protocol

from floodmark.config.errors import ConfigError
from floodmark.config.values import Value, format_value


class Validator(Protocol):
    def check(self, name: str, value: Value) -> None:
        """Raises ConfigError if the parsed value is out of bounds."""

    def describe(self) -> str:
        """The allowed values in a few characters, for documentation."""


@dataclass(frozen=True, slots=True)
class Range:
    low: float | None = None
    high: float | None = None

    def check(self, name: str, value: Value) -> None:
        if not isinstance(value, (int, float)):
            raise ConfigError.bad_value(name, None, "Value must be non-null")
        if self.low is not None and value < self.low:
            raise self._refuse(name, value, f"Value must be at least {self.low}")
        if self.high is not None and value > self.high:
            raise self._refuse(name, value, f"Value must be no more than {self.high}")

    def describe(self) -> str:
        if self.low is None:
            return f"[...,{self.high}]"
        return f"[{self.low},...]" if self.high is None else f"[{self.low},...,{self.high}]"

    def _refuse(self, name: str, value: Value, why: str) -> ConfigError:
        return ConfigError.bad_value(
            name, format_value(value), why, f"Choose a value in {self.describe()}"
        )


@dataclass(frozen=True, slots=True)
class OneOf:
    choices: tuple[str, ...]
    ignore_case: bool = False

    def check(self, name: str, value: Value) -> None:
        text = str(value)
        if text in self.choices:
            return
        if self.ignore_case and text.upper() in {choice.upper() for choice in self.choices}:
            return
        how = " (case insensitive)" if self.ignore_case else ""
        raise ConfigError.bad_value(
            name,
            value,
            f"String must be one of{how}: {', '.join(self.choices)}",
            f"Set {name} to one of them",
        )

    def describe(self) -> str:
        return f"[{', '.join(self.choices)}]"


@dataclass(frozen=True, slots=True)
class ListOf:
    """A list, restricted to `choices` if there are any."""

    choices: tuple[str, ...] = ()
    allow_empty: bool = True

    def check(self, name: str, value: Value) -> None:
        if not isinstance(value, tuple):
            raise ConfigError(f"Configuration '{name}' values must not be null.", name=name)
        if not value and not self.allow_empty:
            allowed = self.describe() if self.choices else "any non-empty value"
            raise ConfigError(
                f"Configuration '{name}' must not be empty. Valid values include: {allowed}",
                name=name,
            )
        for item in value:
            if not item:
                raise ConfigError(f"Configuration '{name}' values must not be empty.", name=name)
            if self.choices:
                OneOf(self.choices).check(name, item)

    def describe(self) -> str:
        return f"[{', '.join(self.choices)}]" if self.choices else ""


@dataclass(frozen=True, slots=True)
class ZooKeeperServers:
    """Servers with optional ports, then an optional path: `a:2181,b:2181/kafka`."""

    def check(self, name: str, value: Value) -> None:
        servers = str(value or "").partition("/")[0]
        for server in filter(None, servers.split(",")):
            if not _SERVER.fullmatch(server.strip()):
                raise ConfigError.bad_value(
                    name,
                    value,
                    f"{server.strip()} is not of the form host:port",
                    "For example zk1:2181,zk2:2181/kafka",
                )

    def describe(self) -> str:
        return "host:port,host:port/path"


_SERVER = re.compile(r"(\[[^\[\]]+\]|[^:\[\]\s]+)(:\d{1,5})?")


@dataclass(frozen=True, slots=True)
class RangeOr:
    """A range, plus one value outside it that means "the codec's default"."""

    low: int
    high: int
    special: int

    def check(self, name: str, value: Value) -> None:
        if value == self.special:
            return
        if not isinstance(value, int) or not self.low <= value <= self.high:
            raise ConfigError.bad_value(
                name,
                value,
                f"Value must be between {self.low} and {self.high} or equal to {self.special}",
            )

    def describe(self) -> str:
        return f"[{self.low},...,{self.high}] or {self.special}"


_REPLICA = re.compile(r"([0-9]+:[0-9]+)?")


@dataclass(frozen=True, slots=True)
class ThrottledReplicas:
    def check(self, name: str, value: Value) -> None:
        items = value if isinstance(value, tuple) else ()
        if "".join(items) == "*" or all(_REPLICA.fullmatch(item.strip()) for item in items):
            return
        raise ConfigError.bad_value(
            name,
            f"[{', '.join(items)}]",
            f"{name} must be the literal '*' or a list of replicas in the following format: "
            f"{self.describe()}",
        )

    def describe(self) -> str:
        return "[partitionId]:[brokerId],[partitionId]:[brokerId],..."


def at_least(low: float) -> Range:
    return Range(low=low)


def between(low: float, high: float) -> Range:
    return Range(low=low, high=high)
