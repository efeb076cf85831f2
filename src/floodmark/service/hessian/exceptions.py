"""Converts Python exceptions to Java throwables, with the lines of their traceback."""

from __future__ import annotations

import traceback
from typing import Any

from floodmark.service.hessian import java_values as java
from floodmark.service.hessian.classes import JavaClasses, JavaObject

# Only classes that Dubbo 3 accepts by default (its serialize.allowlist).
_JAVA_CLASS_OF: tuple[tuple[type[BaseException], str], ...] = (
    (IndexError, "java.lang.IndexOutOfBoundsException"),
    (PermissionError, "java.lang.SecurityException"),
    (ValueError, "java.lang.IllegalArgumentException"),
    (TypeError, "java.lang.IllegalArgumentException"),
)
_ELSE = "java.lang.RuntimeException"
_MAX_LINES = 64


def throwable_of(error: BaseException, classes: JavaClasses) -> JavaObject:
    """What a Java consumer rethrows: the exception's Java class, or the closest standard one."""
    name = classes.name_of(type(error))
    fields: dict[str, Any] = {
        "detailMessage": _message(error, name),
        "cause": None,
        "stackTrace": StackTrace(_lines(error)),
    }
    if name is not None:
        for field in classes.fields_of(type(error)):
            fields[field.java_name] = getattr(error, field.name, None)
    return JavaObject(name or _nearest(error), fields)


def throwable(java_class: str, message: str) -> JavaObject:
    """A Java throwable without a Python exception."""
    fields = {"detailMessage": message, "cause": None, "stackTrace": StackTrace([])}
    return JavaObject(java_class, fields)


class StackTrace(tuple[JavaObject, ...]):
    """Written as StackTraceElement[]; see `Encoder`."""

    __slots__ = ()


def _nearest(error: BaseException) -> str:
    return next((name for cls, name in _JAVA_CLASS_OF if isinstance(error, cls)), _ELSE)


def _message(error: BaseException, java_class: str | None) -> str:
    if java_class is not None:
        return str(error)
    return str(error) if _nearest(error) != _ELSE else f"{type(error).__name__}: {error}"


def _lines(error: BaseException) -> list[JavaObject]:
    frames = traceback.extract_tb(error.__traceback__)[-_MAX_LINES:]
    return [
        JavaObject(
            java.STACK_TRACE_ELEMENT,
            {
                "declaringClass": "python",
                "methodName": frame.name,
                "fileName": frame.filename.rsplit("/", 1)[-1],
                "lineNumber": frame.lineno or 0,
            },
        )
        for frame in reversed(frames)
    ]
