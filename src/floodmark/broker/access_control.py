"""Creates the configured authorizer and keeps it up to date with the image's ACLs.

Created by broker.py. config/not_served.py checks the settings themselves before the start.
"""

from __future__ import annotations

from collections.abc import Callable

from floodmark.apis.acl_authorizer import AclAuthorizer
from floodmark.apis.authorizer import AllowAll, Authorizer
from floodmark.config import BrokerConfig
from floodmark.config.access_control import super_users
from floodmark.metadata.cache import MetadataCache
from floodmark.metadata.image import Delta, MetadataImage
from floodmark.security.acl_table import AclTable
from floodmark.security.acls import Acls


def make_authorizer(metadata: MetadataCache, changed: Callable[[], None]) -> Authorizer:
    """Allows everything if no authorizer is configured."""
    if not metadata.config.get_str("authorizer.class.name"):
        return AllowAll()
    authorizer = AclAuthorizer(_table(metadata.config, {}), changed)

    def image_changed(image: MetadataImage, delta: Delta) -> None:
        if delta.changed_acls:
            authorizer.use(_table(metadata.config, image.acls))

    metadata.subscribe(image_changed)
    return authorizer


def _table(config: BrokerConfig, acls: Acls) -> AclTable:
    return AclTable(
        acls,
        super_users(config),
        allow_if_no_acl=config.get_bool("allow.everyone.if.no.acl.found"),
    )
