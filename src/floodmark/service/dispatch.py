"""The steps between a decoded request and the method: token, echo, generic calls, limits.

In the order of Dubbo's provider filters. Called by the Dubbo and triple servers, and by injvm.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from floodmark.service.errors import RpcError
from floodmark.service.generic import generalized
from floodmark.service.hessian import HessianError, JavaObject
from floodmark.service.hessian.exceptions import throwable, throwable_of
from floodmark.service.hints import Writer
from floodmark.service.invoker import Handle, Invoker, NoSuchMethod, write_any

ECHO = "$echo"
GENERIC_CALLS = ("$invoke", "$invokeAsync")

RPC_EXCEPTION = "org.apache.dubbo.rpc.RpcException"
GENERIC_EXCEPTION = "org.apache.dubbo.rpc.service.GenericException"
_GENERIC_KINDS = ("", "true", "bean", "nativejava")


class Prepared(NamedTuple):
    """A call that may start."""

    handle: Handle | None
    """None means that `arguments[0]` is already the result (an echo)."""
    arguments: list[Any]
    write: Writer
    finish: Callable[[Any], Any] | None
    is_generic: bool


def prepare(
    invoker: Invoker, method: str, arguments: list[Any], attachments: Mapping[str, Any]
) -> Prepared:
    """Checks and converts. Raises RpcError, NoSuchMethod or HessianError."""
    if invoker.token and attachments.get("token") != invoker.token:
        raise RpcError(
            f"Invalid token! Forbid invoke remote service {invoker.interface.name} method "
            f"{method}(), consumer incorrect token is {attachments.get('token')}"
        )
    handle = invoker.handles.get(method)
    if handle is not None:
        return Prepared(handle, handle.accept(arguments), handle.write, None, False)
    if method == ECHO and len(arguments) == 1:
        return Prepared(None, arguments, write_any, None, False)
    if method in GENERIC_CALLS and len(arguments) == 3:
        return _generic(invoker, arguments, attachments)
    raise NoSuchMethod(f"Service not found:{invoker.interface.name}, {method}")


def _generic(invoker: Invoker, arguments: list[Any], attachments: Mapping[str, Any]) -> Prepared:
    kind = attachments.get("generic", "")
    if kind not in _GENERIC_KINDS or kind in ("bean", "nativejava"):
        raise RpcError(f"generic={kind} is not supported: use generic=true")
    name, _types, values = arguments
    if not isinstance(name, str) or not isinstance(values, (list, type(None))):
        raise HessianError("$invoke takes a name, its parameter types and its arguments")
    handle = invoker.handle(name.strip())
    classes = invoker.classes
    return Prepared(
        handle,
        handle.accept(values or []),
        write_any,
        lambda value: generalized(value, classes),
        True,
    )


def java_exception(error: BaseException, invoker: Invoker, *, is_generic: bool) -> JavaObject:
    """What the consumer should throw."""
    if isinstance(error, RpcError):
        thrown = throwable(RPC_EXCEPTION, str(error))
        thrown.fields["code"] = error.code
        return thrown
    thrown = throwable_of(error, invoker.classes)
    if not is_generic:
        return thrown
    message = thrown.fields["detailMessage"]
    wrapped = throwable(GENERIC_EXCEPTION, message)
    wrapped.fields |= {"exceptionClass": thrown.java_class, "exceptionMessage": message}
    return wrapped
