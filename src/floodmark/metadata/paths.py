"""Paths and JSON of Kafka 3.9's ZooKeeper nodes, also used by the embedded store.

PURE. Used by the loader and the controller's decisions, so that Kafka's own tools understand our
clusters.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import quote, unquote
from uuid import UUID

from floodmark.metadata import acl_nodes, token_nodes
from floodmark.metadata.image import (
    CLUSTER_DEFAULT,
    BrokerInfo,
    ConfigResource,
    Endpoint,
    PartitionImage,
    TopicImage,
)
from floodmark.metadata.store import Create

BROKER_IDS = "/brokers/ids"
BROKER_SEQUENCE = "/brokers/seqid"
TOPICS = "/brokers/topics"
CONTROLLER = "/controller"
CONTROLLER_EPOCH = "/controller_epoch"
CLUSTER_ID = "/cluster/id"
CONFIG = "/config"
CONFIG_CHANGES = "/config/changes"
DELETED_TOPICS = "/admin/delete_topics"
FEATURE = "/feature"
LOG_DIR_EVENTS = "/log_dir_event_notification"
PRODUCER_ID_BLOCK = "/latest_producer_id_block"

# Floodmark's own nodes, next to Kafka's.
FLOODMARK = "/floodmark"
KNOWN_BROKERS = "/floodmark/known_brokers"
ELIGIBLE = "eligible_leader_replicas"
LAST_REIGN = "/floodmark/last_reign"

NOTICES_KEPT = 100
"""Notices of changed settings in the store; Kafka keeps those of the last 15 minutes."""

PERSISTENT_PATHS = (
    "/admin",
    DELETED_TOPICS,
    "/brokers",
    BROKER_IDS,
    BROKER_SEQUENCE,
    TOPICS,
    "/cluster",
    CONFIG,
    "/config/brokers",
    CONFIG_CHANGES,
    "/config/clients",
    "/config/groups",
    "/config/ips",
    "/config/topics",
    "/config/users",
    "/consumers",
    FLOODMARK,
    KNOWN_BROKERS,
    LAST_REIGN,
    "/isr_change_notification",
    PRODUCER_ID_BLOCK,
    LOG_DIR_EVENTS,
    *acl_nodes.PERSISTENT_PATHS,
    *token_nodes.PERSISTENT_PATHS,
)

_CONFIG_FOLDERS = {
    "topic": "topics",
    "broker": "brokers",
    "group": "groups",
    "user": "users",
    "client": "clients",
    "ip": "ips",
}
# Their names in the image are the node names below the folder (`quota_nodes.py`).
_KINDS_OF_CLIENTS = frozenset({"user", "client", "ip"})
_CONFIG_KINDS = {folder: kind for kind, folder in _CONFIG_FOLDERS.items()}
_DEFAULT_NAME = "<default>"
_FEATURE_ENABLED = 1
_LOG_DIR_FAILURE = 1
NO_TOPIC_ID = UUID(int=0)
# Kafka writes JSON without spaces. One shared encoder: json.dumps would create one per call.
_JSON = json.JSONEncoder(separators=(",", ":"))


def broker_path(broker_id: int) -> str:
    return f"{BROKER_IDS}/{broker_id}"


def topic_path(topic: str) -> str:
    return f"{TOPICS}/{topic}"


def partitions_path(topic: str) -> str:
    return f"{TOPICS}/{topic}/partitions"


def partition_path(topic: str, partition: int) -> str:
    return f"{TOPICS}/{topic}/partitions/{partition}"


def state_path(topic: str, partition: int) -> str:
    return f"{TOPICS}/{topic}/partitions/{partition}/state"


def eligible_path(topic: str, partition: int) -> str:
    """Our own node next to Kafka's state. Kafka's controller deletes it with the topic."""
    return f"{TOPICS}/{topic}/partitions/{partition}/{ELIGIBLE}"


def deletion_path(topic: str) -> str:
    return f"{DELETED_TOPICS}/{topic}"


def config_path(resource: ConfigResource) -> str:
    if resource.kind in _KINDS_OF_CLIENTS:
        return f"{CONFIG}/{_CONFIG_FOLDERS[resource.kind]}/{resource.name}"
    name = _DEFAULT_NAME if resource.name == CLUSTER_DEFAULT else resource.name
    if resource.kind == "group":
        # Any text may be a group name, but a node name has no slash, and a single dot is special.
        name = quote(name, safe="").replace(".", "%2E")
    return f"{CONFIG}/{_CONFIG_FOLDERS[resource.kind]}/{name}"


def config_resource(path: str) -> ConfigResource | None:
    """The owner of the settings at a path below /config; None if there is none."""
    parts = path.split("/")
    if len(parts) < 4 or parts[2] not in _CONFIG_KINDS:
        return None
    kind = _CONFIG_KINDS[parts[2]]
    if kind in _KINDS_OF_CLIENTS:
        return ConfigResource(kind, "/".join(parts[3:]))
    if len(parts) > 4:
        return None
    if kind == "group":
        return ConfigResource(kind, unquote(parts[3]))
    name = CLUSTER_DEFAULT if parts[3] == _DEFAULT_NAME else parts[3]
    return ConfigResource(kind, name)


# -- the JSON in the nodes ------------------------------------------------------------------------


def _encode(value: object) -> bytes:
    return _JSON.encode(value).encode()


def _decode(data: bytes) -> dict[str, Any]:
    value = json.loads(data)
    if not isinstance(value, dict):
        raise ValueError(f"{data[:80]!r} is not a JSON object")
    return value


def encode_id(topic_id: UUID) -> str:
    """Kafka's text for a UUID: URL-safe base64 without padding."""
    return base64.urlsafe_b64encode(topic_id.bytes).rstrip(b"=").decode()


def decode_id(text: str) -> UUID:
    return UUID(bytes=base64.urlsafe_b64decode(text + "=="))


def random_id(random_bits: Callable[[int], int]) -> UUID:
    """As in Kafka, the text never starts with a dash, which tools would take for an option."""
    while True:
        new = UUID(int=random_bits(128), version=4)
        if not encode_id(new).startswith("-"):
            return new


def encode_cluster_id(cluster_id: str) -> bytes:
    return _encode({"version": "1", "id": cluster_id})


def decode_cluster_id(data: bytes) -> str:
    return str(_decode(data)["id"])


def encode_controller(broker_id: int, now_ms: int) -> bytes:
    return _encode(
        {
            "version": 2,
            "brokerid": broker_id,
            "timestamp": str(now_ms),
            "kraftControllerEpoch": -1,
        }
    )


def decode_controller(data: bytes) -> int:
    return int(_decode(data)["brokerid"])


def encode_broker(broker: BrokerInfo, now_ms: int) -> bytes:
    endpoints = list(broker.endpoints.values())
    plain = next((e for e in endpoints if e.security_protocol == "PLAINTEXT"), None)
    document: dict[str, object] = {
        "features": {
            name: {"min_version": low, "max_version": high}
            for name, (low, high) in broker.supported_features.items()
        },
        "listener_security_protocol_map": {e.listener: e.security_protocol for e in endpoints},
        "endpoints": [f"{e.listener}://{_bracketed(e.host)}:{e.port}" for e in endpoints],
        "jmx_port": -1,
        # For clients that predate listeners: the plaintext one, or nothing.
        "port": plain.port if plain else -1,
        "host": plain.host if plain else None,
        "version": 5,
        "timestamp": str(now_ms),
    }
    if broker.rack is not None:
        document["rack"] = broker.rack
    if broker.unbroken_since >= 0:
        # Our own field. Kafka's brokers lack it, and are therefore not trusted after a restart.
        document["unbroken_since"] = broker.unbroken_since
    return _encode(document)


def decode_broker(broker_id: int, data: bytes, broker_epoch: int) -> BrokerInfo:
    document = _decode(data)
    protocols = document.get("listener_security_protocol_map", {})
    endpoints: dict[str, Endpoint] = {}
    for text in document.get("endpoints", []):
        listener, _, address = text.partition("://")
        host, _, port = address.rpartition(":")
        protocol = protocols.get(listener, listener)
        endpoints[listener] = Endpoint(listener, host.strip("[]"), int(port), protocol)
    features = {
        name: (int(levels["min_version"]), int(levels["max_version"]))
        for name, levels in document.get("features", {}).items()
    }
    return BrokerInfo(
        broker_id,
        broker_epoch,
        endpoints,
        document.get("rack"),
        supported_features=features,
        unbroken_since=int(document.get("unbroken_since", -1)),
        # In ZooKeeper mode, Kafka's brokers register no features; each of ours does.
        is_kafka=not features,
    )


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def encode_topic(topic: TopicImage) -> bytes:
    partitions = list(enumerate(topic.partitions))
    return _encode(
        {
            "partitions": {str(index): p.replicas for index, p in partitions},
            "topic_id": encode_id(topic.topic_id),
            "adding_replicas": {
                str(index): p.adding_replicas for index, p in partitions if p.adding_replicas
            },
            "removing_replicas": {
                str(index): p.removing_replicas for index, p in partitions if p.removing_replicas
            },
            "version": 3,
        }
    )


class TopicAssignment(NamedTuple):
    """The contents of a topic's node. Leaders and in-sync replicas are in the nodes below it."""

    topic_id: UUID
    replicas: dict[int, tuple[int, ...]]
    adding_replicas: dict[int, tuple[int, ...]]
    removing_replicas: dict[int, tuple[int, ...]]


def decode_topic(data: bytes) -> TopicAssignment:
    """Topics created before Kafka 2.8 have no id."""
    document = _decode(data)
    topic_id = document.get("topic_id")
    return TopicAssignment(
        decode_id(topic_id) if topic_id else NO_TOPIC_ID,
        _numbered(document["partitions"]),
        _numbered(document.get("adding_replicas", {})),
        _numbered(document.get("removing_replicas", {})),
    )


def _numbered(value: Mapping[str, Sequence[int]]) -> dict[int, tuple[int, ...]]:
    return {int(index): tuple(replicas) for index, replicas in value.items()}


def encode_state(partition: PartitionImage, controller_epoch: int) -> bytes:
    # Formatted by hand, because one request may create a thousand partitions.
    isr = ",".join(map(str, partition.isr))
    return (
        f'{{"controller_epoch":{controller_epoch},"leader":{partition.leader},"version":1,'
        f'"leader_epoch":{partition.leader_epoch},"isr":[{isr}]}}'
    ).encode()


class PartitionState(NamedTuple):
    controller_epoch: int
    leader: int
    leader_epoch: int
    isr: tuple[int, ...]


def decode_state(data: bytes) -> PartitionState:
    document = _decode(data)
    return PartitionState(
        int(document["controller_epoch"]),
        int(document["leader"]),
        int(document["leader_epoch"]),
        tuple(document["isr"]),
    )


def encode_eligible(partition: PartitionImage) -> bytes:
    """Valid only for this version of the state: when Kafka's controller writes the state, it
    invalidates the list without knowing about it."""
    return _encode(
        {
            "version": 1,
            "state_version": partition.partition_epoch,
            "replicas": partition.eligible_leader_replicas,
        }
    )


def decode_eligible(data: bytes, state_version: int) -> tuple[int, ...]:
    """The replicas, or none if the state has been written since."""
    document = _decode(data)
    return tuple(document["replicas"]) if document["state_version"] == state_version else ()


def encode_config(config: Mapping[str, str]) -> bytes:
    return _encode({"version": 1, "config": dict(config)})


def config_change(resource: ConfigResource) -> Create:
    """Tells brokers that settings have changed: they watch for new nodes here."""
    entity = config_path(resource).removeprefix(f"{CONFIG}/")
    data = _encode({"version": 2, "entity_path": entity})
    return Create(f"{CONFIG_CHANGES}/config_change_", data, sequence=True)


def decode_config_change(data: bytes) -> ConfigResource | None:
    """The owner of the changed settings. None for an unknown format."""
    entity = _decode(data).get("entity_path")
    return config_resource(f"{CONFIG}/{entity}") if entity else None


def log_dir_event(broker_id: int) -> Create:
    """Tells the controller that replicas of this broker have failed: it asks for them."""
    data = _encode({"version": 1, "broker": broker_id, "event": _LOG_DIR_FAILURE})
    return Create(f"{LOG_DIR_EVENTS}/log_dir_event_", data, sequence=True)


def decode_log_dir_event(data: bytes) -> int:
    """The broker that should be asked."""
    return int(_decode(data)["broker"])


def decode_config(data: bytes) -> dict[str, str]:
    """A parent node may be empty."""
    return {str(k): str(v) for k, v in _decode(data).get("config", {}).items()} if data else {}


def encode_features(finalized: Mapping[str, int]) -> bytes:
    """Level 0 is omitted: a Kafka broker refuses feature names it does not know."""
    features = {name: level for name, level in finalized.items() if level > 0}
    return _encode({"features": features, "version": 2, "status": _FEATURE_ENABLED})


def decode_features(data: bytes) -> dict[str, int]:
    return {name: int(level) for name, level in _decode(data).get("features", {}).items()}


def encode_producer_id_block(broker_id: int, first: int, last: int) -> bytes:
    return _encode(
        {"version": 1, "broker": broker_id, "block_start": str(first), "block_end": str(last)}
    )


def decode_next_producer_id(data: bytes) -> int:
    """The first id after the last block handed out; an empty node means there was none."""
    return int(_decode(data)["block_end"]) + 1 if data else 0
