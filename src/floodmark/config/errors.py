"""Configuration errors: raised by config/, shown by cli/, returned as INVALID_CONFIG by apis/."""

from __future__ import annotations


class ConfigError(ValueError):
    """An invalid setting.

    `str(error)` is the message that Kafka's tools expect. `hint` tells the user who starts the
    broker what to do next.
    """

    def __init__(self, message: str, *, name: str | None = None, hint: str | None = None) -> None:
        super().__init__(message)
        self.name = name
        self.hint = hint

    @classmethod
    def bad_value(cls, name: str, value: object, why: str, hint: str | None = None) -> ConfigError:
        """The format of Kafka's ConfigException, which people search the web for."""
        return cls(f"Invalid value {value} for configuration {name}: {why}", name=name, hint=hint)
