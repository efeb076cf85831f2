"""Who a client is and what it may do: TLS material, SASL mechanisms, ACLs and quotas.

The mechanisms are PURE step machines, bytes in and bytes out; so are ACL matching and quota
arithmetic. `tls_context` is the only file here that touches the disk. Used by the broker (network/,
apis/, broker/) and by our own client.
"""
