"""A cluster of broker processes for tests, whose brokers can be killed, paused and cut off.

PUBLIC as `floodmark.testing.Cluster`; the `floodmark_cluster` fixture is one of these.
"""
