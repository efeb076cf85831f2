"""Kafka clients for asyncio: `from floodmark.client import Admin, Consumer, Producer`.

They work against Floodmark and against Apache Kafka. Names are loaded when first used, because
brokers need only the connection and must start fast.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from floodmark.client.admin import Admin
    from floodmark.client.admin_types import NewTopic
    from floodmark.client.cluster import Cluster
    from floodmark.client.consumer import Consumer, ConsumerRecord
    from floodmark.client.errors import KafkaError
    from floodmark.client.group import RebalanceListener
    from floodmark.client.group_offsets import GroupMetadata, OffsetAndMetadata
    from floodmark.client.offsets import OffsetSpec
    from floodmark.client.producer import Producer
    from floodmark.client.settings import (
        ClientSettings,
        ConsumerSettings,
        ProducerSettings,
        SettingsError,
        UnsupportedSetting,
    )
    from floodmark.client.view import TopicPartition

_MODULES = {
    "Admin": "admin",
    "ClientSettings": "settings",
    "Cluster": "cluster",
    "Consumer": "consumer",
    "ConsumerRecord": "consumer",
    "ConsumerSettings": "settings",
    "GroupMetadata": "group_offsets",
    "KafkaError": "errors",
    "NewTopic": "admin_types",
    "OffsetAndMetadata": "group_offsets",
    "OffsetSpec": "offsets",
    "Producer": "producer",
    "ProducerSettings": "settings",
    "RebalanceListener": "group",
    "SettingsError": "settings",
    "TopicPartition": "view",
    "UnsupportedSetting": "settings",
}

__all__ = [
    "Admin",
    "ClientSettings",
    "Cluster",
    "Consumer",
    "ConsumerRecord",
    "ConsumerSettings",
    "GroupMetadata",
    "KafkaError",
    "NewTopic",
    "OffsetAndMetadata",
    "OffsetSpec",
    "Producer",
    "ProducerSettings",
    "RebalanceListener",
    "SettingsError",
    "TopicPartition",
    "UnsupportedSetting",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
