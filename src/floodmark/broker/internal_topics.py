"""The topics that coordinators keep their state in, with the settings that Kafka gives them.

Called by `coordinators.py`, which makes them, and by `identity.py` for a folder of Kafka that has
them: whatever else is not known of it, these must not expire.
"""

from __future__ import annotations

from floodmark.config.broker_config import BrokerConfig
from floodmark.metadata.image import CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC


def internal_settings(topic: str, config: BrokerConfig) -> dict[str, str]:
    """The topic's own settings; nothing for a topic that is not internal."""
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
