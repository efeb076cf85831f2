"""A Python class as a Java interface: its methods, their types, and Dubbo's description of them.

Built once per service or consumer. Includes public methods. Their names become camelCase unless
`@method(name=...)` overrides them.
"""

from __future__ import annotations

import inspect
import json
import typing
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from floodmark.service.errors import InterfaceError
from floodmark.service.hessian import JavaClasses
from floodmark.service.hessian.classes import java_name
from floodmark.service.hints import HintedType, Hints

F = TypeVar("F", bound=Callable[..., Any])

_NAME = "__java_name__"
_INLINE = "__runs_inline__"
_RAISES = "__java_raises__"

_PRIMITIVES = {
    "boolean": "Z",
    "byte": "B",
    "char": "C",
    "double": "D",
    "float": "F",
    "int": "I",
    "long": "J",
    "short": "S",
    "void": "V",
}


class Parameter(NamedTuple):
    name: str
    type: HintedType
    has_default: bool


class Method(NamedTuple):
    """A method as consumers see it."""

    name: str
    python_name: str
    parameters: tuple[Parameter, ...]
    result: HintedType
    raises: tuple[type[BaseException], ...]
    is_async: bool
    runs_inline: bool

    @property
    def descriptor(self) -> str:
        """The parameter types in JVM notation, as in requests."""
        return "".join(descriptor_of(parameter.type.erased) for parameter in self.parameters)

    @property
    def fewest(self) -> int:
        """The minimum number of arguments."""
        return sum(not parameter.has_default for parameter in self.parameters)


class Interface(NamedTuple):
    """What a service offers."""

    name: str
    methods: dict[str, Method]
    classes: JavaClasses

    @property
    def package(self) -> str:
        return self.name.rpartition(".")[0]


def method(
    *, name: str | None = None, inline: bool = False, raises: tuple[type[BaseException], ...] = ()
) -> Callable[[F], F]:
    """Configures one method of a service.

    `name` is its Java name. `inline` runs a plain function on the event loop instead of a thread:
    for functions that never wait. `raises` lists the exceptions the Java interface declares.
    """

    def mark(function: F) -> F:
        if name is not None:
            setattr(function, _NAME, name)
        setattr(function, _INLINE, inline)
        setattr(function, _RAISES, raises)
        return function

    return mark


def interface_of(cls: type, name: str) -> Interface:
    """The interface of `cls` under the Java name `name`."""
    package = name.rpartition(".")[0]
    classes = JavaClasses()
    hints = Hints(classes, f"{package}." if package else "")
    methods: dict[str, Method] = {}
    for python_name, function in inspect.getmembers(cls, inspect.isroutine):
        if python_name.startswith("_") or function.__qualname__.startswith("object."):
            continue
        found = _method(python_name, function, hints)
        if found.name in methods:
            other = methods[found.name].python_name
            raise InterfaceError(f"{python_name} and {other} are both {found.name} in Java")
        methods[found.name] = found
    return Interface(name, methods, classes)


def _method(python_name: str, function: Callable[..., Any], hints: Hints) -> Method:
    try:
        found = typing.get_type_hints(function, include_extras=True)
    except NameError as error:
        raise InterfaceError(
            f"the type hints of {python_name} could not be read: {error}"
        ) from error
    parameters = [
        _parameter(python_name, parameter, found, hints)
        for parameter in list(inspect.signature(function).parameters.values())[1:]
    ]
    raises: tuple[type[BaseException], ...] = getattr(function, _RAISES, ())
    for error_class in raises:
        hints.register_exception(error_class)
    try:
        result = hints.of(found.get("return", Any))
    except InterfaceError as error:
        raise InterfaceError(f"the result of {python_name}: {error}") from error
    return Method(
        getattr(function, _NAME, None) or java_name(python_name),
        python_name,
        tuple(parameters),
        result,
        raises,
        inspect.iscoroutinefunction(function),
        getattr(function, _INLINE, False),
    )


def _parameter(
    where: str, parameter: inspect.Parameter, found: dict[str, Any], hints: Hints
) -> Parameter:
    if parameter.kind not in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
        raise InterfaceError(
            f"{where} takes {parameter}: Java passes arguments only by position; remove it, or "
            "start the method's name with an underscore"
        )
    try:
        kind = hints.of(found.get(parameter.name, Any))
    except InterfaceError as error:
        raise InterfaceError(f"parameter {parameter.name} of {where}: {error}") from error
    has_default = parameter.default is not parameter.empty
    return Parameter(java_name(parameter.name), kind, has_default)


def descriptor_of(java: str) -> str:
    """`java.lang.String[]` becomes `[Ljava/lang/String;`."""
    if java.endswith("[]"):
        return "[" + descriptor_of(java[:-2])
    return _PRIMITIVES.get(java) or f"L{java.replace('.', '/')};"


def count_of(descriptor: str) -> int:
    """The number of types in a parameter descriptor."""
    count = position = 0
    while position < len(descriptor):
        while descriptor[position : position + 1] == "[":
            position += 1
        if descriptor[position : position + 1] == "L":
            end = descriptor.find(";", position)
            position = len(descriptor) if end < 0 else end
        position += 1
        count += 1
    return count


def definition_json(interface: Interface, parameters: dict[str, str]) -> str:
    """The service definition for metadata centres, as Dubbo's FullServiceDefinition."""
    types: dict[str, dict[str, Any]] = {}
    for item in interface.methods.values():
        for kind in (*(p.type for p in item.parameters), item.result):
            types.setdefault(kind.java, {"type": kind.java})
    for cls, name in interface.classes:
        fields = {field.java_name: "java.lang.Object" for field in interface.classes.fields_of(cls)}
        types[name] = {"type": name, "properties": fields}
    return json.dumps(
        {
            "parameters": parameters,
            "canonicalName": interface.name,
            "codeSource": "floodmark",
            "methods": [
                {
                    "name": item.name,
                    "parameterTypes": [parameter.type.erased for parameter in item.parameters],
                    "returnType": item.result.erased,
                }
                for item in interface.methods.values()
            ],
            "types": list(types.values()),
        },
        separators=(",", ":"),
    )
