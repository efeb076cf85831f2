"""What goes wrong with settings: raised by config/, shown by cli/, answered as INVALID_CONFIG by
apis/.
"""

from __future__ import annotations


class ConfigError(ValueError):
    """A setting that cannot be used.

    `str(error)` is the sentence that Kafka's tools expect to see; `hint` tells whoever starts
    the broker what to do next.
    """

    def __init__(self, message: str, *, name: str | None = None, hint: str | None = None) -> None:
        super().__init__(message)
        self.name = name
        self.hint = hint

    @classmethod
    def bad_value(cls, name: str, value: object, why: str, hint: str | None = None) -> ConfigError:
        """The form of Kafka's ConfigException, which people search the web for."""
        return cls(f"Invalid value {value} for configuration {name}: {why}", name=name, hint=hint)
