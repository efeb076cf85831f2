"""How many bytes of a topic a broker in the test's own process has sent to readers."""

from floodmark.testing import Broker


def bytes_read(broker: Broker, topic: str) -> int:
    async def count() -> int:
        replicas = broker.broker.replicas.replicas
        return sum(replica.bytes_out for replica in replicas if replica.key[0] == topic)

    return broker.call(count())
