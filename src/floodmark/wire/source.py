"""The common base of the encoder and decoder generators: lines, indentation, names, constants."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from floodmark.wire.schema import schema_of

FIXED_FORMATS = {
    "bool": "?",
    "int8": "b",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "uint32": "I",
    "int64": "q",
    "float64": "d",
}
"""Struct codes of the kinds whose Python values struct can pack directly."""


class Source:
    def __init__(self, version: int, flexible: bool) -> None:
        self.version = version
        self.flexible = flexible
        self.namespace: dict[str, Any] = {}
        self.lines: list[str] = []
        self.depth = 0
        self.names = 0

    def line(self, text: str) -> None:
        self.lines.append(" " * self.depth + text)

    @contextmanager
    def block(self) -> Iterator[None]:
        self.depth += 1
        yield
        self.depth -= 1

    def name(self, stem: str) -> str:
        self.names += 1
        return f"{stem}{self.names}"

    def constant(self, stem: str, value: Any) -> str:
        """The name of a constant in the generated code."""
        for name, known in self.namespace.items():
            if known is value:
                return name
        name = self.name(stem + "_")
        self.namespace[name] = value
        return name

    def text(self) -> str:
        return "\n".join(self.lines) + "\n"

    def has_records(self, cls: type) -> bool:
        fields = schema_of(cls).fields
        return any(
            field.kind == "records"
            or (isinstance(field.element, type) and self.has_records(field.element))
            for field in fields
        )
