"""Addresses have one text, whatever a socket, Java or a person calls them."""

import pytest

from floodmark.security.addresses import canonical_address


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("::FFFF:0a00:0001", "10.0.0.1"),
        ("0:0:0:0:0:0:0:1", "::1"),
        ("2001:DB8:0:0:0:0:0:1", "2001:db8::1"),
        ("[2001:db8::1]", "2001:db8::1"),
        ("fe80::1%eth0", "fe80::1%eth0"),
        ("*", "*"),
        ("", ""),
        ("a host:9092", "a host:9092"),
    ],
)
def test_an_address_has_one_text(text, canonical):
    assert canonical_address(text) == canonical
