"""One text for each network address, so that ACLs, quotas and limits find it. PURE.

A listener on `::` sees IPv4 clients as `::ffff:10.0.0.1`, and Java writes IPv6 addresses without
the `::` that Python puts into them. An ACL that denies a host must not depend on either. Called by
`network.acceptor` for clients, and where settings name addresses.
"""

from __future__ import annotations

from ipaddress import IPv6Address


def canonical_address(text: str) -> str:
    """IPv4 as it is, also if mapped into IPv6; IPv6 as short as possible; other texts unchanged."""
    if ":" not in text:
        return text
    try:
        address = IPv6Address(text.strip("[]"))
    except ValueError:
        return text
    return str(address.ipv4_mapped or address)
