"""The declarations that define Kafka's messages, and the errors of encoding and decoding them.

A definition under `wire/messages/` or `wire/internal/` is an ordinary slotted dataclass whose
defaults are field declarations from here. The decorators `@struct` and `@message` turn the
declarations into a `Schema`, from which `wire/compiler.py` builds encoders and decoders.

Versions are written as in Kafka: "3" is one version, "3-9" a range, "3+" an open range. A field
without versions exists in every version of its message.
"""

import dataclasses
import sys
import uuid as uuid_module
from collections.abc import Callable, Sequence
from typing import Any, Literal, Protocol, TypeAlias, TypeVar, dataclass_transform, overload

from floodmark.wire.api_keys import ApiKey

T = TypeVar("T")

ZERO_UUID = uuid_module.UUID(int=0)

LAST_VERSION = 32767
"""The end of an open range, because versions are sent as int16."""

VersionRange: TypeAlias = tuple[int, int]
MessageKind: TypeAlias = Literal["request", "response", "data"]
PrimitiveKind: TypeAlias = Literal[
    "bool", "int8", "int16", "uint16", "int32", "uint32", "int64", "float64", "uuid", "string"
]


class WireError(ValueError):
    """A message could not be encoded or decoded."""


class DecodeError(WireError):
    """The bytes are not a message of this class and version."""


class EncodeError(WireError):
    """The message cannot be encoded in this version."""


class UnsupportedVersion(WireError):
    """The message is not defined in this version."""

    def __init__(self, cls: type, version: int) -> None:
        super().__init__(f"{cls.__name__} has no version {version}")
        self.message_class = cls
        self.version = version


class SizedPart(Protocol):
    """Bytes that are not in memory yet, such as a slice of a file."""

    @property
    def size_bytes(self) -> int: ...


Buffer: TypeAlias = bytes | bytearray | memoryview
RecordPart: TypeAlias = Buffer | SizedPart
RecordData: TypeAlias = RecordPart | list[RecordPart] | None
"""The values of a `records` field that can be encoded. Decoding returns a memoryview or None."""


@dataclasses.dataclass(slots=True, kw_only=True)
class Field:
    """One field of a structure, as declared."""

    kind: str
    versions: VersionRange
    default: Any
    nullable: VersionRange | None = None
    tag: int | None = None
    ignorable: bool = False
    element: Any = None
    """For an array, a structure class or the kind of a primitive. For a struct, its class."""
    name: str = ""

    def exists_in(self, version: int) -> bool:
        return self.versions[0] <= version <= self.versions[1]

    def nullable_in(self, version: int) -> bool:
        return self.nullable is not None and self.nullable[0] <= version <= self.nullable[1]


@dataclasses.dataclass(slots=True, kw_only=True, eq=False)
class Schema:
    """What the decorators know about a class. The compiler adds codecs on first use."""

    name: str
    fields: tuple[Field, ...]
    frozen: bool
    kind: MessageKind | None = None
    api_key: ApiKey | None = None
    versions: VersionRange = (0, LAST_VERSION)
    flexible: VersionRange | None = None
    encoders: dict[int, Callable[[Any, list[Any]], None]] = dataclasses.field(default_factory=dict)
    decoders: dict[int, Callable[[Any, int], tuple[Any, int]]] = dataclasses.field(
        default_factory=dict
    )

    def is_flexible(self, version: int) -> bool:
        return self.flexible is not None and self.flexible[0] <= version <= self.flexible[1]


def schema_of(cls: type) -> Schema:
    """The schema of a class decorated with `@struct` or `@message`."""
    schema: Schema = cls.__wire__  # type: ignore[attr-defined]
    return schema


def parse_versions(text: str) -> VersionRange:
    if text.endswith("+"):
        return int(text[:-1]), LAST_VERSION
    first, _, last = text.partition("-")
    return int(first), int(last or first)


def _field(
    kind: str,
    versions: str,
    default: Any,
    *,
    nullable: str | None = None,
    tag: int | None = None,
    ignorable: bool = False,
    element: Any = None,
) -> Any:
    return Field(
        kind=kind,
        versions=parse_versions(versions),
        default=default,
        nullable=None if nullable is None else parse_versions(nullable),
        tag=tag,
        ignorable=ignorable,
        element=element,
    )


# The declarations return Any, so that mypy takes `acks: int = int16()` for a field with a default.


def boolean(
    versions: str = "0+", *, default: bool = False, tag: int | None = None, ignorable: bool = False
) -> Any:
    return _field("bool", versions, default, tag=tag, ignorable=ignorable)


def int8(
    versions: str = "0+", *, default: int = 0, tag: int | None = None, ignorable: bool = False
) -> Any:
    return _field("int8", versions, default, tag=tag, ignorable=ignorable)


def int16(
    versions: str = "0+", *, default: int = 0, tag: int | None = None, ignorable: bool = False
) -> Any:
    return _field("int16", versions, default, tag=tag, ignorable=ignorable)


def uint16(
    versions: str = "0+", *, default: int = 0, tag: int | None = None, ignorable: bool = False
) -> Any:
    return _field("uint16", versions, default, tag=tag, ignorable=ignorable)


def int32(
    versions: str = "0+", *, default: int = 0, tag: int | None = None, ignorable: bool = False
) -> Any:
    return _field("int32", versions, default, tag=tag, ignorable=ignorable)


def uint32(
    versions: str = "0+", *, default: int = 0, tag: int | None = None, ignorable: bool = False
) -> Any:
    return _field("uint32", versions, default, tag=tag, ignorable=ignorable)


def int64(
    versions: str = "0+", *, default: int = 0, tag: int | None = None, ignorable: bool = False
) -> Any:
    return _field("int64", versions, default, tag=tag, ignorable=ignorable)


def float64(
    versions: str = "0+", *, default: float = 0.0, tag: int | None = None, ignorable: bool = False
) -> Any:
    return _field("float64", versions, default, tag=tag, ignorable=ignorable)


def uuid(versions: str = "0+", *, tag: int | None = None, ignorable: bool = False) -> Any:
    return _field("uuid", versions, ZERO_UUID, tag=tag, ignorable=ignorable)


def string(
    versions: str = "0+",
    *,
    nullable: str | None = None,
    default: str | None = "",
    tag: int | None = None,
    ignorable: bool = False,
) -> Any:
    return _field("string", versions, default, nullable=nullable, tag=tag, ignorable=ignorable)


def binary(
    versions: str = "0+",
    *,
    nullable: str | None = None,
    default: bytes | None = b"",
    tag: int | None = None,
    ignorable: bool = False,
) -> Any:
    """Kafka's `bytes`: copied out of the buffer."""
    return _field("bytes", versions, default, nullable=nullable, tag=tag, ignorable=ignorable)


def records(versions: str = "0+", *, nullable: str | None = None) -> Any:
    """Record batches: not copied, neither when decoding nor when encoding."""
    return _field("records", versions, None, nullable=nullable)


def array(
    element: type | PrimitiveKind,
    versions: str = "0+",
    *,
    nullable: str | None = None,
    default: Sequence[Any] | None = (),
    tag: int | None = None,
    ignorable: bool = False,
) -> Any:
    """A list. `default` is empty or None."""
    return _field(
        "array", versions, default, nullable=nullable, tag=tag, ignorable=ignorable, element=element
    )


def nested(
    element: type,
    versions: str = "0+",
    *,
    nullable: str | None = None,
    default: Literal["empty"] | None = "empty",
    tag: int | None = None,
    ignorable: bool = False,
) -> Any:
    """A structure inside a structure. Its default has the fields' defaults, or is None."""
    value = None
    if default is not None:
        # The shared default of a frozen structure costs nothing per message.
        value = element() if schema_of(element).frozen else element
    return _field(
        "struct", versions, value, nullable=nullable, tag=tag, ignorable=ignorable, element=element
    )


def _dataclass_field(field: Field) -> Any:
    if field.kind == "array" and field.default is not None:
        return dataclasses.field(default_factory=list)
    if field.kind == "struct" and field.default is field.element:
        return dataclasses.field(default_factory=field.element)
    return dataclasses.field(default=field.default)


def _build(cls: type[T], frozen: bool) -> tuple[type[T], tuple[Field, ...]]:
    fields = []
    for name in cls.__annotations__:
        field = cls.__dict__[name]
        field.name = sys.intern(name)
        fields.append(field)
        setattr(cls, name, _dataclass_field(field))
    return dataclasses.dataclass(slots=True, kw_only=True, frozen=frozen)(cls), tuple(fields)


@overload
def struct(cls: type[T]) -> type[T]: ...
@overload
def struct(*, frozen: bool) -> Callable[[type[T]], type[T]]: ...
@dataclass_transform(kw_only_default=True)
def struct(
    cls: type[T] | None = None, *, frozen: bool = False
) -> type[T] | Callable[[type[T]], type[T]]:
    """Declares a structure that is nested in messages.

    Use a frozen one for tagged structures of plain values: all messages can then share one default.
    """

    def decorate(decorated: type[T]) -> type[T]:
        built, fields = _build(decorated, frozen)
        built.__wire__ = Schema(  # type: ignore[attr-defined]
            name=built.__name__, fields=fields, frozen=frozen
        )
        return built

    return decorate if cls is None else decorate(cls)


@dataclass_transform(kw_only_default=True)
def message(
    api_key: ApiKey | None, kind: MessageKind, *, versions: str, flexible: str | None
) -> Callable[[type[T]], type[T]]:
    """Declares a whole message. Data stored in records has no API key."""

    def decorate(decorated: type[T]) -> type[T]:
        built, fields = _build(decorated, frozen=False)
        built.__wire__ = Schema(  # type: ignore[attr-defined]
            name=built.__name__,
            fields=fields,
            frozen=False,
            kind=kind,
            api_key=api_key,
            versions=parse_versions(versions),
            flexible=None if flexible is None else parse_versions(flexible),
        )
        return built

    return decorate
