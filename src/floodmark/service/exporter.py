"""A provider URL in one registry, kept up to date with its configurators."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

from floodmark.service.config import registered_url
from floodmark.service.configurators import apply_rules, parse_rules
from floodmark.service.invoker import Invoker
from floodmark.service.registry import Registry
from floodmark.service.url import URL

logger = logging.getLogger(__name__)


class Registration:
    """One service in one registry. Registered again when a rule changes its URL."""

    def __init__(self, registry: Registry, url: URL, invoker: Invoker) -> None:
        """`url` is the provider URL without overrides."""
        self._registry = registry
        self._url = url
        self._invoker = invoker
        self._wanted = registered_url(url, registry.url)
        self._registered: URL | None = None
        self._unsubscribe: Callable[[], None] | None = None
        self._rules: list[URL] = []
        self._changes: asyncio.Task[None] | None = None
        self._is_withdrawn = False

    @property
    def url(self) -> URL | None:
        """The URL the registry currently shows."""
        return self._registered

    async def start(self) -> None:
        """Reads the rules first, so that consumers see the right URL from the start."""
        self._unsubscribe = await self._registry.subscribe(
            self._url.interface, "configurators", self._rules_changed
        )
        await self._settle()

    def _rules_changed(self, names: Sequence[str]) -> None:
        self._rules = parse_rules(names)
        effective = apply_rules(self._url, self._rules)
        self._wanted = registered_url(effective, self._registry.url)
        self._invoker.reconfigure(effective)
        if self._registered is not None and self._registered != self._wanted:
            shown = self._wanted.without(["token"])
            logger.info("%s is reconfigured: %s", self._url.interface, shown)
            self._change_soon()

    def _change_soon(self) -> None:
        if self._changes is None or self._changes.done():
            self._changes = asyncio.get_running_loop().create_task(self._settle())

    async def _settle(self) -> None:
        """Updates the registry: adds the new URL, then removes the old one."""
        while self._registered != self._target():
            target, before = self._target(), self._registered
            if target is not None:
                await self._registry.register(target)
            self._registered = target
            if before is not None:
                await self._registry.unregister(before)

    def _target(self) -> URL | None:
        if self._is_withdrawn or not self._url.get_bool("register", True):
            return None
        return self._wanted

    async def withdraw(self) -> None:
        """Removes the service from the registry. Still serves remaining calls."""
        self._is_withdrawn = True
        await self._finish_changes()

    async def put_back(self) -> None:
        self._is_withdrawn = False
        await self._finish_changes()

    async def _finish_changes(self) -> None:
        if self._changes is not None:
            await self._changes
        await self._settle()

    async def stop(self) -> None:
        if self._unsubscribe is not None:
            self._unsubscribe()
        await self.withdraw()
