"""Where Kafka 3.9 keeps delegation tokens, and their JSON; the same in the embedded store. PURE.

A node per token, `/delegation_token/tokens/ID`. A token's secret is not stored: each broker makes
it from the id and `delegation.token.secret.key`. Brokers follow the change nodes. Used by the
loader and by `broker.delegation_tokens`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from urllib.parse import unquote

from floodmark.metadata.quota_nodes import node_name
from floodmark.metadata.store import Create, Node
from floodmark.security.delegation_tokens import DelegationToken

_ROOT = "/delegation_token"
TOKENS = f"{_ROOT}/tokens"
CHANGES = f"{_ROOT}/token_changes"
PERSISTENT_PATHS = (_ROOT, TOKENS, CHANGES)

_VERSION = 3
_JSON = json.JSONEncoder(separators=(",", ":"))


def token_path(token_id: str) -> str:
    return f"{TOKENS}/{token_id}"


def encode_token(token: DelegationToken) -> bytes:
    document = {
        "version": _VERSION,
        "owner": node_name(token.owner),
        "tokenRequester": node_name(token.requester),
        "renewers": [node_name(renewer) for renewer in token.renewers],
        "issueTimestamp": token.issue_ms,
        "maxTimestamp": token.max_ms,
        "expiryTimestamp": token.expiry_ms,
        "tokenId": token.token_id,
    }
    return _JSON.encode(document).encode()


def decode_token(data: bytes) -> DelegationToken:
    document = json.loads(data)
    if not 0 < document["version"] <= _VERSION:
        raise ValueError(f"a delegation token has version {document['version']}")
    owner = unquote(document["owner"])
    return DelegationToken(
        document["tokenId"],
        owner,
        # Before version 3 everybody made tokens for themselves.
        unquote(document["tokenRequester"]) if document["version"] >= 3 else owner,
        tuple(unquote(renewer) for renewer in document["renewers"]),
        int(document["issueTimestamp"]),
        int(document["maxTimestamp"]),
        int(document["expiryTimestamp"]),
    )


def decode_tokens(nodes: Mapping[str, Node]) -> dict[str, DelegationToken]:
    """The nodes at and below `TOKENS`."""
    return {
        path.rpartition("/")[2]: decode_token(node.data)
        for path, node in nodes.items()
        if path != TOKENS and node.data
    }


def change_notification(token_id: str) -> Create:
    """The node by which other brokers learn that a token has come, changed or gone."""
    return Create(f"{CHANGES}/token_change_", token_id.encode(), sequence=True)
