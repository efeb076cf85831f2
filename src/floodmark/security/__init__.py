"""Who a client is, proved: TLS material, SASL mechanisms, credentials and tokens.

The mechanisms are PURE step machines, bytes in and bytes out; `tls_context` is the only file here
that touches the disk. Used by the broker (network/, apis/, broker/) and by our own client.
"""
