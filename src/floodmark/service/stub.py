"""PURE: generates Java and Go sources of an interface, for consumers to compile against.

Used by `floodmark service stub`. For Java, an interface and a class per dataclass, enum and
declared exception. For Go, one file with structs and a service struct for dubbo-go.
"""

from __future__ import annotations

import typing
from enum import Enum

from floodmark.service.errors import InterfaceError
from floodmark.service.hints import Hints
from floodmark.service.interface import Interface, Method


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_JAVA_WORDS = _words(
    "abstract assert boolean break byte case catch char class const continue default do double "
    "else enum extends false final finally float for goto if implements import instanceof int "
    "interface long native new null package private protected public return short static "
    "strictfp super switch synchronized this throw throws transient true try void volatile while _"
)
_GO_WORDS = _words(
    "break case chan const continue default defer else fallthrough for func go goto if import "
    "interface map package range return select struct switch type var ctx _"
)
"""Go's own, and the name of the first parameter of every function."""

_HEADER = "// Written by `floodmark service stub`. Changes will be lost.\n"


def java_sources(interface: Interface) -> dict[str, str]:
    """Sources by path, such as `dev/shop/Orders.java`."""
    sources = {_path(interface.name): _java_interface(interface)}
    for cls, name in interface.classes:
        if issubclass(cls, Enum):
            sources[_path(name)] = _java_enum(cls, name)
        else:
            sources[_path(name)] = _java_class(cls, name, interface)
    return sources


def _java_word(name: str, where: str) -> str:
    """A name that Java sources have to use as it is."""
    if name in _JAVA_WORDS:
        raise InterfaceError(f"{where} cannot be named {name} in Java, where that word is reserved")
    return name


def _parameter(name: str, reserved: frozenset[str]) -> str:
    """A parameter's name is nothing to the wire, so it may change."""
    return f"{name}_" if name in reserved else name


def _path(name: str) -> str:
    return name.replace(".", "/") + ".java"


def _top(name: str) -> str:
    package = name.rpartition(".")[0]
    return _HEADER + (f"package {package};\n\n" if package else "\n")


def _java_interface(interface: Interface) -> str:
    lines = [_top(interface.name) + f"public interface {interface.name.rpartition('.')[2]} {{"]
    for method in interface.methods.values():
        lines.append(f"    {_java_signature(method, interface)};")
    return "\n".join([*lines, "}", ""])


def _java_signature(method: Method, interface: Interface) -> str:
    name = _java_word(method.name, f"method {method.python_name}")
    parameters = ", ".join(
        f"{item.type.java} {_parameter(item.name, _JAVA_WORDS)}" for item in method.parameters
    )
    thrown = ", ".join(interface.classes.name_of(cls) or "" for cls in method.raises)
    throws = f" throws {thrown}" if thrown else ""
    return f"{method.result.java} {name}({parameters}){throws}"


def _java_enum(cls: type[Enum], name: str) -> str:
    constants = ", ".join(_java_word(member.name, f"a member of {name}") for member in cls)
    return f"{_top(name)}public enum {name.rpartition('.')[2]} {{ {constants} }}\n"


def _java_class(cls: type, name: str, interface: Interface) -> str:
    simple = name.rpartition(".")[2]
    is_exception = issubclass(cls, BaseException)
    extends = "extends Exception" if is_exception else "implements java.io.Serializable"
    lines = [_top(name) + f"public class {simple} {extends} {{"]
    lines.append("    private static final long serialVersionUID = 1L;\n")
    fields = _fields(cls, interface)
    for field, java in fields:
        lines.append(f"    private {java} {_java_word(field, f'a field of {name}')};")
    lines.append(f"\n    public {simple}() {{\n    }}")
    if is_exception:
        lines.append(f"\n    public {simple}(String message) {{\n        super(message);\n    }}")
    for field, java in fields:
        upper = field[:1].upper() + field[1:]
        prefix = "is" if java == "boolean" else "get"
        lines.append(f"\n    public {java} {prefix}{upper}() {{\n        return {field};\n    }}")
        lines.append(
            f"\n    public void set{upper}({java} {field}) {{\n"
            f"        this.{field} = {field};\n    }}"
        )
    return "\n".join([*lines, "}", ""])


def _fields(cls: type, interface: Interface) -> list[tuple[str, str]]:
    """Name and Java type of each field, in wire order."""
    found = typing.get_type_hints(cls, include_extras=True)
    package = f"{interface.package}." if interface.package else ""
    hints = Hints(interface.classes, package)
    return [
        (field.java_name, hints.of(found[field.name]).java)
        for field in interface.classes.fields_of(cls)
    ]


_GO_TYPES = {
    "boolean": "bool",
    "byte": "int8",
    "short": "int16",
    "int": "int32",
    "long": "int64",
    "float": "float32",
    "double": "float64",
    "char": "string",
    "java.lang.String": "string",
    "java.lang.Boolean": "*bool",
    "java.lang.Integer": "*int32",
    "java.lang.Long": "*int64",
    "java.lang.Double": "*float64",
    "java.util.Date": "time.Time",
    "java.math.BigDecimal": "*big.Decimal",
    "java.math.BigInteger": "*big.Integer",
    "byte[]": "[]byte",
    "java.lang.Object": "interface{}",
}


# Go refuses an import that is not used.
_GO_IMPORTS = {
    "context.Context": '\t"context"',
    "time.Time": '\t"time"',
    "hessian.Register": '\n\thessian "github.com/apache/dubbo-go-hessian2"',
    "java_exception.": '\t"github.com/apache/dubbo-go-hessian2/java_exception"',
    "*big.": '\tbig "github.com/dubbogo/gost/math/big"',
}


def go_source(interface: Interface, package: str = "stub") -> str:
    """One Go file with the interface and its classes."""
    body = [_go_class(cls, name, interface) for cls, name in interface.classes]
    body.append(_go_service(interface))
    text = "\n".join(body)
    registered = "".join(_go_registration(cls, name) for cls, name in interface.classes)
    init = f"func init() {{\n{registered}}}\n\n" if registered else ""
    used = [line for mark, line in _GO_IMPORTS.items() if mark in init + text]
    imports = f"import (\n{chr(10).join(used)}\n)\n\n" if used else ""
    return f"{_HEADER}package {package}\n\n{imports}{init}{text}"


def _go_registration(cls: type, name: str) -> str:
    simple = name.rpartition(".")[2]
    if not issubclass(cls, Enum):
        return f"\thessian.RegisterPOJO(&{simple}{{}})\n"
    return "".join(f"\thessian.RegisterJavaEnum({simple}{member})\n" for member in cls.__members__)


def _go_service(interface: Interface) -> str:
    simple = interface.name.rpartition(".")[2]
    lines = [
        f"// {simple} is {interface.name}; give it to dubbo-go's client.",
        f"type {simple} struct {{",
    ]
    for method in interface.methods.values():
        go_name = method.name[:1].upper() + method.name[1:]
        parameters = ", ".join(
            [
                "ctx context.Context",
                *(
                    f"{_parameter(p.name, _GO_WORDS)} {_go(p.type.java, interface)}"
                    for p in method.parameters
                ),
            ]
        )
        result = _go_result(method.result.java, interface)
        lines.append(f'\t{go_name} func({parameters}) {result} `dubbo:"{method.name}"`')
    lines += [
        "}",
        "",
        f"func (s *{simple}) Reference() string {{",
        f'\treturn "{interface.name}"',
        "}",
    ]
    return "\n".join([*lines, ""])


def _go_result(java: str, interface: Interface) -> str:
    """dubbo-go does not convert the items of a top-level list or map, and refuses a function
    without a result."""
    if java == "void":
        return "(interface{}, error)"
    if java.startswith(("java.util.List", "java.util.Set")):
        return "([]interface{}, error)"
    if java.startswith("java.util.Map"):
        return "(map[interface{}]interface{}, error)"
    return f"({_go(java, interface)}, error)"


def _go_enum(cls: type[Enum], name: str) -> str:
    simple = name.rpartition(".")[2]
    members = list(cls.__members__)
    constants = [
        f"\t{simple}{members[0]} {simple} = iota",
        *(f"\t{simple}{m}" for m in members[1:]),
    ]
    names = ", ".join(f'"{member}"' for member in members)
    lines = [f"type {simple} hessian.JavaEnum", "", "const (", *constants, ")", ""]
    lines += [f"var names{simple} = []string{{{names}}}", ""]
    lines += [f"func ({simple}) JavaClassName() string {{", f'\treturn "{name}"', "}", ""]
    lines += [f"func (e {simple}) String() string {{", f"\treturn names{simple}[e]", "}", ""]
    lines += [f"func ({simple}) EnumValue(name string) hessian.JavaEnum {{"]
    lines += [f"\tfor i, known := range names{simple} {{", "\t\tif known == name {"]
    lines += ["\t\t\treturn hessian.JavaEnum(i)", "\t\t}", "\t}"]
    lines += ["\treturn hessian.InvalidJavaEnum", "}"]
    return "\n".join([*lines, ""])


def _go_class(cls: type, name: str, interface: Interface) -> str:
    simple = name.rpartition(".")[2]
    if issubclass(cls, Enum):
        return _go_enum(cls, name)
    is_exception = issubclass(cls, BaseException)
    lines = [f"type {simple} struct {{", *(_GO_THROWABLE if is_exception else ())]
    for field, java in _fields(cls, interface):
        go_name = field[:1].upper() + field[1:]
        lines.append(f'\t{go_name} {_go(java, interface)} `hessian:"{field}"`')
    lines += ["}", "", f"func (*{simple}) JavaClassName() string {{", f'\treturn "{name}"', "}"]
    if is_exception:
        lines += ["", f"func (e *{simple}) Error() string {{", "\treturn e.DetailMessage", "}", ""]
        lines += [f"func (e *{simple}) GetStackTrace() []java_exception.StackTraceElement {{"]
        lines += ["\treturn e.StackTrace", "}"]
    return "\n".join([*lines, ""])


# An exception is an error there: `errors.As` finds its class.
_GO_THROWABLE = (
    '\tDetailMessage string `hessian:"detailMessage"`',
    '\tCause java_exception.Throwabler `hessian:"cause"`',
    '\tStackTrace []java_exception.StackTraceElement `hessian:"stackTrace"`',
)


def _go_item(java: str, interface: Interface) -> str:
    """Inside lists and maps, Java's numbers are objects, but Go's are not."""
    return (
        _go(java, interface).lstrip("*") if java.startswith("java.lang.") else _go(java, interface)
    )


def _go(java: str, interface: Interface) -> str:
    if java in _GO_TYPES:
        return _GO_TYPES[java]
    if java.endswith("[]"):
        return "[]" + _go(java[:-2], interface)
    if java.startswith(("java.util.List<", "java.util.Set<")):
        return "[]" + _go_item(java[java.index("<") + 1 : -1], interface)
    if java.startswith("java.util.Map<"):
        key, _, value = java[len("java.util.Map<") : -1].partition(", ")
        return f"map[{_go_item(key, interface)}]{_go_item(value, interface)}"
    if java.startswith("java."):
        return "interface{}"
    simple = java.rpartition(".")[2]
    if not simple.isidentifier():
        raise InterfaceError(f"{java} has no Go type")
    cls = interface.classes.class_of(java)
    is_enum = cls is not None and issubclass(cls, Enum)
    return simple if is_enum else f"*{simple}"
