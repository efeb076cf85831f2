"""Reads settings, features, ACLs, tokens and the current controller from the store.

Used by cluster_membership.py on brokers that are not the controller. On ZooKeeper, every node costs
a request. So this reads only new topics' settings and those named by notices below
`/config/changes`; everything at first, and when notices may have been missed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import TypeAlias

from floodmark.metadata import acl_nodes, paths, token_nodes
from floodmark.metadata.image import ConfigResource, MetadataImage
from floodmark.metadata.loader import decoding, load_acls, load_settings, load_state, load_tokens
from floodmark.metadata.store import Store

_FOLDERS = (paths.CONFIG_CHANGES, *acl_nodes.CHANGE_FOLDERS, token_nodes.CHANGES)
_Notices = Mapping[str, list[str]]

TopicSettings: TypeAlias = Mapping[ConfigResource, Mapping[str, str] | None]
"""Settings by topic; None for a topic without its own."""


async def settings_of_topics(store: Store, topics: Iterable[str]) -> TopicSettings:
    """Reads the settings of these topics in parallel."""
    resources = [ConfigResource("topic", name) for name in topics]
    nodes = await asyncio.gather(*(store.get(paths.config_path(one)) for one in resources))
    with decoding():
        return {
            resource: None if node is None else paths.decode_config(node.data)
            for resource, node in zip(resources, nodes, strict=True)
        }


class SettingsReader:
    def __init__(self, store: Store) -> None:
        self._store = store
        # The last notice in each folder; None before everything was read.
        self._seen: Mapping[str, str] | None = None

    def forget(self) -> None:
        """The session was lost: anything may have changed since."""
        self._seen = None

    async def read(self, known: MetadataImage, new_topics: Collection[str]) -> MetadataImage:
        """Returns the image without brokers and topics. `known` is the previous image, with all
        topics."""
        if self._store.watches_below:
            return await load_settings(self._store)
        # Read the notices first, so that later changes are read again the next time.
        notices = {folder: await self._store.children(folder) for folder in _FOLDERS}
        changed = None if self._seen is None else await self._changed(self._seen, notices)
        if changed is None:
            image = await load_settings(self._store)
        else:
            topics = {ConfigResource("topic", name) for name in new_topics}
            image = await self._updated(known, changed | topics, notices)
        self._seen = {folder: names[-1] if names else "" for folder, names in notices.items()}
        return image

    async def _changed(
        self, seen: Mapping[str, str], notices: _Notices
    ) -> set[ConfigResource] | None:
        """The resources that the new notices name; None if notices may be missing."""
        if any(_may_be_missing(seen[folder], names) for folder, names in notices.items()):
            return None
        changed: set[ConfigResource] = set()
        for name in _new(seen, notices, paths.CONFIG_CHANGES):
            node = await self._store.get(f"{paths.CONFIG_CHANGES}/{name}")
            with decoding():
                resource = None if node is None else paths.decode_config_change(node.data)
            if resource is None:
                return None
            changed.add(resource)
        return changed

    async def _updated(
        self, known: MetadataImage, changed: Collection[ConfigResource], notices: _Notices
    ) -> MetadataImage:
        configs = {
            resource: settings
            for resource, settings in known.configs.items()
            if resource not in changed
            and (resource.kind != "topic" or resource.name in known.topics)
        }
        for resource in changed:
            node = await self._store.get(paths.config_path(resource))
            if node is not None:
                with decoding():
                    configs[resource] = paths.decode_config(node.data)
        seen = self._seen or {}
        has_new_acls = any(_new(seen, notices, folder) for folder in acl_nodes.CHANGE_FOLDERS)
        acls = await load_acls(self._store) if has_new_acls else known.acls
        has_new_tokens = _new(seen, notices, token_nodes.CHANGES)
        tokens = await load_tokens(self._store) if has_new_tokens else known.tokens
        state = await load_state(self._store)
        return replace(state, configs=configs, acls=acls, tokens=tokens)


def _may_be_missing(seen: str, names: list[str]) -> bool:
    """Old notices are removed. If the last one we read is still there, so are all newer ones."""
    return seen not in names if seen else len(names) >= paths.NOTICES_KEPT


def _new(seen: Mapping[str, str], notices: _Notices, folder: str) -> list[str]:
    return [name for name in notices[folder] if name > seen.get(folder, "")]
