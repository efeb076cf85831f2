"""Converts between texts and typed values with Java's rules, which server.properties files follow.

Used by `setting.py`. The numbers of `ValueType` are those in DescribeConfigs.
"""

from __future__ import annotations

import math
import re
from enum import IntEnum

from floodmark.config.errors import ConfigError

Value = bool | int | float | str | tuple[str, ...] | None


class ValueType(IntEnum):
    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1
DOUBLE_MAX = 1.7976931348623157e308

_WHOLE_NUMBER_BITS = {ValueType.SHORT: 16, ValueType.INT: 32, ValueType.LONG: 64}
_WHOLE_NUMBER = re.compile(r"[+-]?[0-9]+")
_LIST_SEPARATOR = re.compile(r"\s*,\s*")


def parse_value(name: str, value_type: ValueType, text: str) -> Value:
    """Raises ConfigError with Kafka's wording if `text` is not of the type."""
    trimmed = text.strip()
    if value_type is ValueType.BOOLEAN:
        return _parse_boolean(name, text, trimmed)
    if value_type in _WHOLE_NUMBER_BITS:
        return _parse_whole_number(name, value_type, text, trimmed)
    if value_type is ValueType.DOUBLE:
        return _parse_double(name, text, trimmed)
    if value_type is ValueType.LIST:
        return tuple(_LIST_SEPARATOR.split(trimmed)) if trimmed else ()
    return trimmed


def format_value(value: Value) -> str | None:
    """Kafka's text for a value: `true`, `1,2`, `1.7976931348623157E308`."""
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return _java_double(value)
    if isinstance(value, tuple):
        return ",".join(value)
    return str(value)


def _parse_boolean(name: str, text: str, trimmed: str) -> bool:
    lowered = trimmed.lower()
    if lowered not in ("true", "false"):
        raise ConfigError.bad_value(
            name,
            text,
            "Expected value to be either true or false",
            f"Use {name}=true or {name}=false",
        )
    return lowered == "true"


def _parse_whole_number(name: str, value_type: ValueType, text: str, trimmed: str) -> int:
    bits = _WHOLE_NUMBER_BITS[value_type]
    if _WHOLE_NUMBER.fullmatch(trimmed):
        number = int(trimmed) if len(trimmed) <= 20 else None
        if number is not None and -(1 << (bits - 1)) <= number < (1 << (bits - 1)):
            return number
    raise ConfigError.bad_value(
        name,
        text,
        f"Not a number of type {value_type.name}",
        f"Set {name} to an integer of at most {bits} bits, without a unit",
    )


def _parse_double(name: str, text: str, trimmed: str) -> float:
    try:
        # Python accepts 1_000 as a number, Java does not.
        number = math.nan if "_" in trimmed else float(trimmed)
    except ValueError:
        number = math.nan
    if math.isnan(number):
        raise ConfigError.bad_value(
            name, text, "Not a number of type DOUBLE", f"Set {name} to a number such as 0.5"
        )
    return number


def _java_double(number: float) -> str:
    """Java writes exponents as E308, Python as e+308."""
    mantissa, _, exponent = repr(number).partition("e")
    if not exponent:
        return mantissa
    if "." not in mantissa:
        mantissa += ".0"
    return f"{mantissa}E{int(exponent)}"
