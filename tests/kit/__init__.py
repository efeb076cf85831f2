"""Brings up real brokers and outside tools for the tests in clients/, crash/ and for bench/.

Nothing here imports floodmark: our broker is started as a process, as a user would start it.
"""
