"""A test cluster of broker processes that can be killed, paused and partitioned.

PUBLIC as `floodmark.testing.Cluster` and as the `floodmark_cluster` fixture.
"""
