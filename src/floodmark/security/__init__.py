"""Authentication and authorization: TLS material, SASL mechanisms, ACLs and quotas.

The mechanisms are PURE state machines, bytes in and bytes out. ACL matching and quota arithmetic
are PURE too. Only `tls_context` accesses the disk. Used by the broker (network/, apis/, broker/)
and by our client.
"""
