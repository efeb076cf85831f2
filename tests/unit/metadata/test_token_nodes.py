"""Delegation tokens in the store, as Kafka 3.9 writes them."""

import pytest

from floodmark.metadata import token_nodes
from floodmark.metadata.store import Create, Node
from floodmark.security.delegation_tokens import DelegationToken

TOKEN = DelegationToken("Ab-1", "User:al ice", "User:admin", ("User:b/b",), 1, 3, 2)


def test_the_json_is_kafkas():
    assert token_nodes.encode_token(TOKEN) == (
        b'{"version":3,"owner":"User%3Aal%20ice","tokenRequester":"User%3Aadmin",'
        b'"renewers":["User%3Ab%2Fb"],"issueTimestamp":1,"maxTimestamp":3,"expiryTimestamp":2,'
        b'"tokenId":"Ab-1"}'
    )
    nodes = {
        token_nodes.TOKENS: Node(b"", 0, 0, False),
        token_nodes.token_path("Ab-1"): Node(token_nodes.encode_token(TOKEN), 0, 0, False),
    }
    assert token_nodes.decode_tokens(nodes) == {"Ab-1": TOKEN}


def test_older_tokens_were_requested_by_their_owners():
    old = (
        b'{"version":1,"owner":"User%3Aalice","renewers":[],"issueTimestamp":1,'
        b'"maxTimestamp":3,"expiryTimestamp":2,"tokenId":"x"}'
    )
    assert token_nodes.decode_token(old).requester == "User:alice"


def test_a_later_version_is_not_guessed_at():
    with pytest.raises(ValueError, match="version 4"):
        token_nodes.decode_token(b'{"version":4}')


def test_the_notice_names_the_token():
    notice = token_nodes.change_notification("Ab-1")
    assert notice == Create("/delegation_token/token_changes/token_change_", b"Ab-1", sequence=True)
