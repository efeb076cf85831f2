"""A ZooKeeper session on an asyncio loop: what the service registry and the cluster share."""
