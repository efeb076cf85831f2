"""Access lists of the nodes in ZooKeeper, for `zookeeper.set.acl`. Used by zookeeper_store.

As in Kafka: only brokers write, everybody reads all nodes without secrets, and the offsets of
consumers older than Kafka 0.9 stay open.
"""

from __future__ import annotations

from typing import Any

from kazoo.security import CREATOR_ALL_ACL, OPEN_ACL_UNSAFE

from floodmark.metadata import token_nodes
from floodmark.zookeeper.security import OWN_NODES

_OPEN = "/consumers"
SENSITIVE = ("/config/users", "/config/brokers", token_nodes.TOKENS)
"""SCRAM credentials, passwords of key stores, and tokens."""


def acl_of(path: str) -> list[Any]:
    """The access list of a new node. `path` excludes the chroot."""
    if path == _OPEN:
        return [*OPEN_ACL_UNSAFE]
    return [*CREATOR_ALL_ACL] if path.startswith(SENSITIVE) else OWN_NODES
