"""Definitions of data other than requests and responses: internal topics, embedded protocols."""
