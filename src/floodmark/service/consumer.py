"""Calls services from Python: finds them in the registry, balances load, fails over."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

from floodmark.clock import Clock, SystemClock
from floodmark.service.balancing import balancer
from floodmark.service.call import Call, enter_call
from floodmark.service.closing import ClosedAtExit
from floodmark.service.config import PROTOCOL_VERSION, RELEASE, registry_urls
from floodmark.service.directory import Directory, Provider
from floodmark.service.dispatch import GENERIC_CALLS, prepare
from floodmark.service.dubbo.responses import Outcome
from floodmark.service.errors import RemoteError, RpcError
from floodmark.service.hessian import Encoder, HessianError, JavaClasses, JavaObject, loads
from floodmark.service.hessian.encode import Encoded
from floodmark.service.interface import Interface, Method, interface_of
from floodmark.service.invoker import Invoker, Runs, contained
from floodmark.service.local_address import local_host
from floodmark.service.provider import Services
from floodmark.service.registry import Registry
from floodmark.service.settings import Settings
from floodmark.service.url import ANY_VALUE, URL, service_key

DEFAULT_TIMEOUT_MS = 1000
DEFAULT_RETRIES = 2
_GENERIC_DESCRIPTOR = "Ljava/lang/String;[Ljava/lang/String;[Ljava/lang/Object;"


class Consumer(ClosedAtExit):
    """References services: `async with Consumer(registry="zookeeper://...") as consumer:`."""

    def __init__(
        self,
        *,
        registry: str | Sequence[str] = (),
        application: str = "floodmark",
        services: Services | None = None,
        clock: Clock | None = None,
        seed: int | None = None,
    ) -> None:
        """With `services`, calls this process's own exports directly (injvm)."""
        addresses = [registry] if isinstance(registry, str) else list(registry)
        self._settings = Settings(
            application={"name": application},
            registries=tuple({"address": address} for address in addresses if address),
        )
        self._services = services
        self._clock = clock or SystemClock()
        self._random = random.Random(seed)
        self._registries: list[Registry] = []
        self._registered: list[tuple[Registry, URL]] = []
        self._directories: list[Directory] = []

    async def __aenter__(self) -> Self:
        try:
            for url in registry_urls(self._settings, for_provider=False):
                registry = Registry(url)
                await registry.start()
                self._registries.append(registry)
        except BaseException:
            await self.close()
            raise
        return self

    async def close(self) -> None:
        for directory in self._directories:
            directory.close()
        for registry, url in self._registered:
            await registry.unregister(url, "consumers")
        for registry in self._registries:
            await registry.close()

    async def refer(self, cls: type, interface: str = "", **options: Any) -> Any:
        """An object with the methods of `cls`, all of them async.

        Options: group, version, url (bypasses the registry), timeout_ms, retries, loadbalance.
        """
        name = interface or getattr(cls, "__dubbo_interface__", cls.__name__)
        return Proxy(await self.reference(interface_of(cls, name), **options))

    async def generic(self, interface: str, **options: Any) -> Reference:
        """For calls by name: `await reference.invoke("find", [5])`."""
        return await self.reference(Interface(interface, {}, JavaClasses()), **options)

    async def reference(
        self,
        interface: Interface,
        *,
        group: str = "",
        version: str = "",
        url: str = "",
        timeout_ms: int = DEFAULT_TIMEOUT_MS,
        retries: int = DEFAULT_RETRIES,
        loadbalance: str = "random",
    ) -> Reference:
        """A service by its interface."""
        directory = Directory(interface.name, group, version)
        self._directories.append(directory)
        local = None
        if self._services is not None:
            local = self._services.local.get(service_key(interface.name, group, version))
        if url:
            direct = URL.parse(url)
            # As in Java, an address without a path means the interface's own path.
            directory.add(replace(direct, path=direct.path or interface.name))
        elif local is None:
            for registry in self._registries:
                await self._register(registry, interface, group, version)
                await directory.follow(registry)
        chosen = balancer(loadbalance, self._random.randrange)
        return Reference(
            interface, directory, local, chosen, self._clock, group, version, timeout_ms, retries
        )

    async def _register(
        self, registry: Registry, interface: Interface, group: str, version: str
    ) -> None:
        """Consumers are visible in the registry too."""
        parameters = {
            "application": str(self._settings.application["name"]),
            "category": "consumers",
            "check": "false",
            "dubbo": PROTOCOL_VERSION,
            "group": group,
            "interface": interface.name,
            "pid": str(os.getpid()),
            "release": RELEASE,
            "side": "consumer",
            "timestamp": str(self._clock.now_ms()),
            "version": version,
        }
        host = local_host([registry.url])
        url = URL("consumer", host, 0, interface.name, parameters)
        await registry.register(url, "consumers")
        self._registered.append((registry, url))


class Reference:
    """A service, seen from its consumer."""

    def __init__(
        self,
        interface: Interface,
        directory: Directory,
        local: Invoker | None,
        chosen: Any,
        clock: Clock,
        group: str,
        version: str,
        timeout_ms: int,
        retries: int,
    ) -> None:
        self.interface = interface
        self._directory = directory
        self._local = local
        self._balancer = chosen
        self._clock = clock
        self._timeout_ms = timeout_ms
        self._retries = retries
        self._attachments = {"path": interface.name, "interface": interface.name}
        self._attachments |= {"timeout": str(timeout_ms)}
        self._attachments |= {"group": group} if group else {}
        self._attachments |= {"version": version} if version else {}
        self._version = version

    @property
    def addresses(self) -> list[str]:
        """The providers that could be called now."""
        return sorted(item.url.address for item in self._directory.providers())

    async def call(self, method: Method, arguments: Sequence[Any]) -> Any:
        """Calls a method known by its type hints."""
        parameters = method.parameters
        if not method.fewest <= len(arguments) <= len(parameters):
            raise TypeError(
                f"{method.name} takes {len(parameters)} arguments, got {len(arguments)}"
            )
        if self._local is not None:
            return await self._call_locally(self._local, method.name, list(arguments))
        typed = [(p.type.write, value) for p, value in zip(parameters, arguments, strict=False)]
        value = await self._call(method.name, method.descriptor, typed, {})
        try:
            return method.result.convert(value) if method.result.java != "void" else None
        except HessianError as error:
            raise RpcError(f"the result of {method.name}: {error}") from error

    async def invoke(self, name: str, arguments: Sequence[Any], types: Sequence[str] = ()) -> Any:
        """A generic call: objects are maps. Java providers need `types`."""
        values = [name, list(types), list(arguments)]
        if self._local is not None:
            return await self._call_locally(self._local, GENERIC_CALLS[0], values)
        typed = [
            (Encoder.write, values[0]),
            (_write_strings, values[1]),
            (_write_objects, values[2]),
        ]
        generic = {"generic": "true"}
        return await self._call(GENERIC_CALLS[0], _GENERIC_DESCRIPTOR, typed, generic)

    async def _call(
        self,
        name: str,
        descriptor: str,
        arguments: Sequence[Any],
        more: Mapping[str, str],
    ) -> Any:
        """Failover: tries another provider if one fails before it has responded."""
        tried: set[str] = set()
        failure: RpcError | None = None
        for _ in range(self._retries + 1):
            provider = self._choose(name, tried)
            tried.add(provider.url.address)
            try:
                outcome = await self._call_one(provider, name, descriptor, arguments, more)
            except RpcError as error:
                if error.code == RpcError.SERIALIZATION:
                    raise
                failure = error
                continue
            if outcome.thrown is not None:
                # A response, though a negative one: another provider would say the same.
                raise _exception(outcome.thrown)
            return outcome.value
        assert failure is not None
        raise failure

    def _choose(self, name: str, tried: set[str]) -> Provider:
        providers = self._directory.providers()
        if not providers:
            raise RpcError(
                f"No provider available for the service {self.interface.name}", RpcError.NO_INVOKER
            )
        untried = [item for item in providers if item.url.address not in tried]
        candidates = untried or providers
        chosen: Provider = self._balancer.choose(candidates, name, self._clock.now_ms())
        return chosen

    async def _call_one(
        self,
        provider: Provider,
        name: str,
        descriptor: str,
        arguments: Sequence[Any],
        more: Mapping[str, str],
    ) -> Outcome:
        attachments = {**self._attachments, **more}
        for key in ("group", "version"):
            if attachments.get(key) == ANY_VALUE:
                # A provider only knows its own.
                attachments[key] = provider.url.get(key)
        if provider.url.get("token"):
            attachments["token"] = provider.url.get("token")
        provider.begun()
        try:
            client = await provider.client()
            return await client.call(
                provider.url.path,
                attachments.get("version", ""),
                name,
                descriptor,
                arguments,
                attachments,
                self.interface.classes,
                self._timeout_ms / 1000,
            )
        finally:
            provider.ended()

    async def _call_locally(self, invoker: Invoker, name: str, arguments: list[Any]) -> Any:
        """In the same process: passes arguments and result unchanged."""
        attachments = {**self._attachments, "token": invoker.token, "generic": "true"}
        prepared = prepare(invoker, name, arguments, attachments)
        handle = prepared.handle
        if handle is None:
            return prepared.arguments[0]
        handle.begin()
        enter_call(Call(name, attachments, "injvm"))
        try:
            if handle.runs is Runs.ON_THE_LOOP:
                value = await handle.function(*prepared.arguments)
            elif handle.runs is Runs.INLINE:
                value = handle.function(*prepared.arguments)
            else:
                value = await asyncio.to_thread(contained, handle.function, *prepared.arguments)
        finally:
            handle.end()
        if isinstance(value, Encoded):
            value = loads(value.data, invoker.classes)
        return prepared.finish(value) if prepared.finish is not None else value


class Proxy:
    """The methods of an interface as attributes, by their Python and their Java names."""

    def __init__(self, reference: Reference) -> None:
        self.reference = reference
        methods = reference.interface.methods.values()
        self._methods = {item.name: item for item in methods}
        self._methods |= {item.python_name: item for item in methods}

    def __getattr__(self, name: str) -> Any:
        method = self.__dict__["_methods"].get(name)
        if method is None:
            raise AttributeError(f"{self.reference.interface.name} has no method {name}")

        async def call(*arguments: Any) -> Any:
            return await self.reference.call(method, arguments)

        return call


def _write_strings(encoder: Encoder, value: Any) -> None:
    encoder.write_array("[string", value)


def _write_objects(encoder: Encoder, value: Any) -> None:
    encoder.write_array("[object", value)


def _exception(thrown: Any) -> Exception:
    if isinstance(thrown, Exception):
        return thrown
    if isinstance(thrown, JavaObject):
        fields = thrown.fields
        if thrown.java_class.endswith(".RpcException"):
            return RpcError(str(fields.get("detailMessage")), int(fields.get("code") or 0))
        if thrown.java_class.endswith(".GenericException"):
            return RemoteError(str(fields.get("exceptionClass")), fields.get("exceptionMessage"))
        return RemoteError(thrown.java_class, fields.get("detailMessage"))
    return RemoteError("java.lang.Throwable", str(thrown))
