"""Prepared requests: repeated requests skip decoding, and repeated answers skip encoding.

`memory` holds what a connection has prepared, `produces` and `fetch_answers` prepare and use it.
`apis.dispatch` tries the prepared produces first; everything else takes the full way.
"""
