"""A setting's definition: name, type, default, bounds, and who may change it at runtime.

The files in `settings/` are lists of these. `broker_config.py` and `topic_config.py` give them
values.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from floodmark.config.validators import ListOf, Validator
from floodmark.config.values import Value, ValueType, parse_value


class Importance(Enum):
    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


class UpdateMode(Enum):
    """Whether a running broker accepts a new value, and at which level it can be set."""

    READ_ONLY = "read-only"
    PER_BROKER = "per-broker"
    CLUSTER_WIDE = "cluster-wide"


@dataclass(frozen=True, slots=True)
class Setting:
    name: str
    type: ValueType
    default: Value
    importance: Importance
    documentation: str
    validator: Validator | None = None
    update_mode: UpdateMode = UpdateMode.READ_ONLY
    # Accepted from a file but not listed by DescribeConfigs, like Kafka's internal test settings.
    is_internal: bool = False

    @property
    def is_sensitive(self) -> bool:
        """Secrets are never shown by DescribeConfigs."""
        return self.type is ValueType.PASSWORD

    @property
    def is_dynamic(self) -> bool:
        return self.update_mode is not UpdateMode.READ_ONLY

    def parse(self, text: str) -> Value:
        """Parses a value. Raises ConfigError if it has the wrong type or is out of bounds."""
        value = parse_value(self.name, self.type, text)
        if isinstance(self.validator, ListOf) and isinstance(value, tuple):
            value = tuple(dict.fromkeys(value))
        if self.validator is not None:
            self.validator.check(self.name, value)
        return value


@dataclass(frozen=True, slots=True)
class Synonym:
    """A broker setting that a topic setting falls back to. Hours become milliseconds."""

    name: str
    to_ms: int = 1


@dataclass(frozen=True, slots=True)
class TopicSetting(Setting):
    """`synonyms` are in Kafka's lookup order: the first with a value wins."""

    synonyms: tuple[Synonym, ...] = ()


HIGH, MEDIUM, LOW = Importance.HIGH, Importance.MEDIUM, Importance.LOW
READ_ONLY = UpdateMode.READ_ONLY
PER_BROKER = UpdateMode.PER_BROKER
CLUSTER_WIDE = UpdateMode.CLUSTER_WIDE
