"""Prepared requests: repeated requests skip decoding, and repeated responses skip encoding.

`memory` holds what a connection has prepared; `produces` and `fetch_answers` prepare and use it.
`apis.dispatch` tries the prepared produces first. Everything else takes the full path.
"""
