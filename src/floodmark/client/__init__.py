"""Kafka clients for asyncio: `from floodmark.client import Admin, Consumer, Producer`.

They work with Floodmark and Apache Kafka. Names load on first use, because brokers need only the
connection and must start fast.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from floodmark.client.admin.admin import Admin
    from floodmark.client.admin.admin_types import NewTopic
    from floodmark.client.cluster.cluster import Cluster
    from floodmark.client.cluster.view import TopicPartition
    from floodmark.client.consumer.consumer import Consumer, ConsumerRecord
    from floodmark.client.consumer.group import RebalanceListener
    from floodmark.client.consumer.group_offsets import GroupMetadata, OffsetAndMetadata
    from floodmark.client.errors import KafkaError
    from floodmark.client.offsets import OffsetSpec
    from floodmark.client.producer.producer import Producer
    from floodmark.client.settings import (
        ClientSettings,
        ConsumerSettings,
        ProducerSettings,
        SettingsError,
        UnsupportedSetting,
    )

_MODULES = {
    "Admin": "admin.admin",
    "ClientSettings": "settings",
    "Cluster": "cluster.cluster",
    "Consumer": "consumer.consumer",
    "ConsumerRecord": "consumer.consumer",
    "ConsumerSettings": "settings",
    "GroupMetadata": "consumer.group_offsets",
    "KafkaError": "errors",
    "NewTopic": "admin.admin_types",
    "OffsetAndMetadata": "consumer.group_offsets",
    "OffsetSpec": "offsets",
    "Producer": "producer.producer",
    "ProducerSettings": "settings",
    "RebalanceListener": "consumer.group",
    "SettingsError": "settings",
    "TopicPartition": "cluster.view",
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
