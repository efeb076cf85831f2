"""Methods of an exported object, ready to be called: arguments in, result out.

Everything that can be known before a call is determined when the service is exported.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError
from enum import Enum, auto
from typing import Any

from floodmark.service.errors import RpcError
from floodmark.service.hessian import Encoder, HessianError, JavaClasses
from floodmark.service.hints import Writer
from floodmark.service.interface import Interface, Method
from floodmark.service.url import URL, is_set

CONVERSION_ERRORS = (HessianError, ArithmeticError, RecursionError, ValueError)
"""What a converter raises for an invalid value.

All but the first come from Python's own types, such as a number too large for a float.
"""


class Runs(Enum):
    """Where a method runs."""

    INLINE = auto()
    ON_THE_LOOP = auto()
    IN_A_THREAD = auto()


class NoSuchMethod(RpcError):
    """The interface has no such method, or not with that many arguments."""


class Handle:
    """One method of one object."""

    __slots__ = (
        "_converters",
        "_fewest",
        "active",
        "function",
        "limit",
        "name",
        "runs",
        "service",
        "timeout_seconds",
        "write",
    )

    def __init__(self, method: Method, function: Callable[..., Any], url: URL) -> None:
        self.name = method.name
        self.service = url.interface
        self.function = function
        self.write: Writer = method.result.write
        self.runs = _runs(method)
        self.limit = 0
        """Maximum concurrent calls (`executes`); 0 for no limit."""
        self.timeout_seconds = 0.0
        """Calls that take longer are logged; 0 for no limit."""
        self.active = 0
        self.configure(url)
        self._converters = tuple(parameter.type.convert for parameter in method.parameters)
        self._fewest = method.fewest

    def configure(self, url: URL) -> None:
        """Applies a provider URL's settings for this method."""
        self.limit = max(0, _number(url.method_parameter(self.name, "executes")))
        self.timeout_seconds = max(0, _number(url.method_parameter(self.name, "timeout"))) / 1000

    def accept(self, values: Sequence[Any]) -> list[Any]:
        """Converts arguments to the hinted types, or raises an error that names the wrong one."""
        converters = self._converters
        if not self._fewest <= len(values) <= len(converters):
            raise NoSuchMethod(f"{self.name} takes {self._takes()} arguments, got {len(values)}")
        try:
            return [convert(value) for convert, value in zip(converters, values, strict=False)]
        except CONVERSION_ERRORS:
            self._explain(values)
            raise

    def _explain(self, values: Sequence[Any]) -> None:
        for number, (convert, value) in enumerate(zip(self._converters, values, strict=False)):
            try:
                convert(value)
            except CONVERSION_ERRORS as error:
                raise HessianError(f"argument {number} of {self.name}: {error}") from error

    def _takes(self) -> str:
        most = len(self._converters)
        return str(most) if most == self._fewest else f"{self._fewest} to {most}"

    def begin(self) -> None:
        """Counts a call. Above the limit it is refused, like Dubbo's ExecuteLimitFilter does."""
        if self.limit and self.active >= self.limit:
            raise RpcError(
                f"Failed to invoke method {self.name}, cause: The service using threads greater "
                f'than <dubbo:service executes="{self.limit}" /> limited.',
                RpcError.LIMIT_EXCEEDED,
            )
        self.active += 1

    def end(self) -> None:
        self.active -= 1


def contained(function: Callable[..., Any], *arguments: Any) -> Any:
    """Calls a method in a thread. Raises ordinary exceptions only.

    A future does not accept StopIteration, a cancellation would look like that of the waiting task,
    and SystemExit would end the loop: the consumer would never get a response.
    """
    try:
        return function(*arguments)
    except (StopIteration, CancelledError) as error:
        raise _as_runtime_error(error) from error
    except Exception:
        raise
    except BaseException as error:
        raise _as_runtime_error(error) from error


def _as_runtime_error(error: BaseException) -> RuntimeError:
    return RuntimeError(f"the method raised {type(error).__name__}: {error}")


def _number(text: str) -> int:
    """Operators' rules may contain anything. A value that is not a number counts as not set."""
    try:
        return int(text)
    except ValueError:
        return 0


def _runs(method: Method) -> Runs:
    if method.is_async:
        return Runs.ON_THE_LOOP
    return Runs.INLINE if method.runs_inline else Runs.IN_A_THREAD


class Invoker:
    """An object behind an interface and a URL. A configurator may change the URL."""

    def __init__(self, target: object, interface: Interface, url: URL) -> None:
        self.target = target
        self.interface = interface
        self.url = url
        self.token = _token(url)
        self.last_call = 0.0
        """The time of the last call on the loop's clock; 0 if there was none."""
        self.handles: dict[str, Handle] = {}
        for method in interface.methods.values():
            handle = Handle(method, getattr(target, method.python_name), url)
            self.handles[method.name] = handle
            # A Java interface may also use Python's own name.
            self.handles.setdefault(method.python_name, handle)

    @property
    def classes(self) -> JavaClasses:
        return self.interface.classes

    def reconfigure(self, url: URL) -> None:
        """Applies the settings of a new URL while calls continue."""
        self.url = url
        self.token = _token(url)
        for handle in self.handles.values():
            handle.configure(url)

    def handle(self, name: str) -> Handle:
        found = self.handles.get(name)
        if found is None:
            raise NoSuchMethod(f"Service not found:{self.interface.name}, {name}")
        return found


def _token(url: URL) -> str:
    token = url.get("token")
    return token if is_set(token) else ""


def write_any(encoder: Encoder, value: Any) -> None:
    """Writes a result by its own type, for echo and generic calls."""
    encoder.write(value)
