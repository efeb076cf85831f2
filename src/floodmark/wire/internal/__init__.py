"""Definitions of data that is not a request or a response: internal topics, markers, protocols."""
