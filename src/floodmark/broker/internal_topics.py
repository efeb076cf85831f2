"""The internal topics of the coordinators, with Kafka's settings for them.

Called by `coordinators.py`, which creates them, and by `identity.py` for an adopted Kafka folder:
even if its settings are unknown, these topics must not expire.
"""

from __future__ import annotations

from floodmark.config.broker_config import BrokerConfig
from floodmark.metadata.image import CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC


def internal_settings(topic: str, config: BrokerConfig) -> dict[str, str]:
    """The topic's own settings. Empty unless the topic is internal."""
    if topic == CONSUMER_OFFSETS_TOPIC:
        return {
            "cleanup.policy": "compact",
            "compression.type": "producer",
            "segment.bytes": str(config.get_int("offsets.topic.segment.bytes")),
        }
    if topic == TRANSACTION_STATE_TOPIC:
        return {
            "cleanup.policy": "compact",
            "compression.type": "uncompressed",
            "min.insync.replicas": str(config.get_int("transaction.state.log.min.isr")),
            "segment.bytes": str(config.get_int("transaction.state.log.segment.bytes")),
            "unclean.leader.election.enable": "false",
        }
    return {}
