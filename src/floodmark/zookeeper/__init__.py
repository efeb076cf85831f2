"""ZooKeeper sessions on an asyncio loop, for the service registry and the cluster."""
