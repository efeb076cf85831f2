"""What fuzzed fields are filled with, so that requests get past the first check.

Good values stand there several times: a request passes only when all of its fields do. A field that
any value would do for is not named here; `messages` fills it by its type.
"""

from __future__ import annotations

from floodmark.wire.compiler import encode
from floodmark.wire.internal.consumer_protocol import (
    AssignmentTopicPartition,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)

LONGEST = "x" * 32_767
"""What is told about it is longer than a string can be. Not for names under which the broker keeps
something: with a flipped bit it is another one, and to keep them all is no leak."""
FUZZ_TOPICS = ("fuzz-0", "fuzz-1", "fuzz-2")
BAD_TOPICS = (
    "no-such-topic",
    "",
    ".",
    "..",
    "bad name!",
    "x" * 249,
    "x" * 250,
    "ü",
    "fuzz.0",
    LONGEST,
)
INTERNAL_TOPICS = ("__consumer_offsets", "__transaction_state")
TOPICS = (*FUZZ_TOPICS * 8, *BAD_TOPICS, *INTERNAL_TOPICS)
GROUPS = (*("group-1", "group-2", "漢字") * 4, "")
INSTANCES = (*("static-1", "static-2") * 6, "")
TRANSACTIONAL_IDS = (*("txn-1", "txn-2") * 4, "")
STRINGS = (
    "",
    "a",
    "group-1",
    "漢字",
    "retention.ms",
    "cleanup.policy",
    "compact",
    "x" * 126,
    "0",
)

PARTITIONS = (*(0, 1) * 12, -1, -2, -4, 99, 2**31 - 1, -(2**31))
RESOURCE_TYPES = (*(2, 2, 4, 32) * 3, 8, 16, 0, -1)
TOPIC_SETTINGS = (
    "retention.ms",
    "cleanup.policy",
    "compression.type",
    "max.message.bytes",
    "min.insync.replicas",
)
"""None that makes a segment of every batch, which would fill the disk."""
OTHER_SETTINGS = (
    "num.io.threads",
    "background.threads",
    "consumer.session.timeout.ms",
    "",
    "x.y",
)
VALUES = ("0", "1", "-1", "2", "compact", "delete", "compact,delete", "zstd", "x", "", "1048576")
HUGE_VALUES = (str(2**31), str(2**63 - 1), str(2**63), "9" * 5000)

STRING_POOLS: dict[str, tuple[str, ...]] = {
    "name": TOPICS,
    "topic": TOPICS,
    "topic_name": TOPICS,
    "topic_names": TOPICS,
    "DeleteTopicState.name": (*FUZZ_TOPICS, *BAD_TOPICS),
    "DeleteTopicsRequest.topic_names": (*FUZZ_TOPICS, *BAD_TOPICS),
    "resource_name": (*TOPICS, *("1", "") * 4, "2", "01", "group-1", "a/b"),
    "group_id": GROUPS,
    "group_ids": GROUPS,
    "groups": GROUPS,
    "groups_names": GROUPS,
    "group": GROUPS,
    "group_instance_id": INSTANCES,
    "instance_id": INSTANCES,
    "rack_id": (*("rack",) * 8, ""),
    "member_id": ("", "", "a", "b"),
    "ConsumerGroupHeartbeatRequest.member_id": ("a", "b", "c", "d", ""),
    "protocol_type": (*("consumer",) * 8, "connect", ""),
    "protocol_name": (*("range",) * 8, "x", ""),
    "JoinGroupRequestProtocol.name": ("range", "range", "roundrobin", ""),
    "subscribed_topic_names": TOPICS,
    "subscribed_topic_regex": ("fuzz.*", "fuzz-[01]", "", "(", ".*", "\\", "x{1001}", "a" * 5000),
    "server_assignor": (*("uniform", "range") * 3, "x", "", LONGEST),
    "transactional_id": TRANSACTIONAL_IDS,
    "transactional_ids": TRANSACTIONAL_IDS,
    "v3_and_below_transactional_id": TRANSACTIONAL_IDS,
    "transactional_id_pattern": ("txn.*", "", "(", "[", "x{1001}"),
    "state_filters": ("Ongoing", "Empty", "ongoing", "x", ""),
    "states_filter": ("Stable", "stable ", "Empty", "x", ""),
    "types_filter": ("classic", "Consumer", "share", "x", ""),
    "key": (*GROUPS, "txn-1"),
    "coordinator_keys": (*GROUPS, "txn-1"),
    "AlterableConfig.name": (*TOPIC_SETTINGS, *TOPIC_SETTINGS, *OTHER_SETTINGS),
    "AlterableConfig.value": (*VALUES, *HUGE_VALUES),
    "CreatableTopicConfig.name": (*TOPIC_SETTINGS, *OTHER_SETTINGS),
    "CreatableTopicConfig.value": (*VALUES, *HUGE_VALUES),
    "configuration_keys": (*TOPIC_SETTINGS, *OTHER_SETTINGS),
    "feature": ("transaction.version", "group.version", "metadata.version", "", LONGEST),
}

NUMBER_POOLS: dict[str, tuple[int, ...]] = {
    "num_partitions": (*(-1, 1, 2) * 3, 0, -5, 10_001, 2**31 - 1),
    "count": (*(2, 3) * 2, -1, 0, 1, 2**31 - 1),
    "replication_factor": (*(-1, 1) * 4, 0, 2, 32767, -32768),
    "timeout_ms": (-1, 0, 1, 30),
    "max_wait_ms": (-1, 0, 1, 30),
    "partition": PARTITIONS,
    "partition_index": PARTITIONS,
    "index": PARTITIONS,
    "partitions": PARTITIONS,
    "partition_indexes": PARTITIONS,
    "broker_ids": (1, 1, 1, 2, -1),
    "replicas": (1, 1, 1, 2, -1),
    "acks": (*(-1, 0, 1) * 3, 2),
    "DeleteRecordsPartition.offset": (-1, 0, 1, 2, 3, -2, 2**63 - 1, -(2**63)),
    "isolation_level": (*(0, 1) * 4, 2, -1),
    "session_id": (0, 0, 0, 5, -1),
    "session_epoch": (-1, -1, 0, 0, 1, 2),
    "session_timeout_ms": (*(6000,) * 12, -1, 0, 2**31 - 1),
    "rebalance_timeout_ms": (*(10,) * 8, 0, -1, -(2**31)),
    "generation_id": (-1, 0, 1, 2, 3),
    "member_epoch": (*(0,) * 8, -1, -2, 1, 2, -3, 2**31 - 1),
    "generation_id_or_member_epoch": (-1, -1, 0, 1, 2),
    "current_leader_epoch": (-1, -1, 0, 1, -2),
    "transaction_timeout_ms": (*(60_000,) * 6, 1, 0, -1, 2**31 - 1),
    "key_type": (*(0, 1) * 4, 2, 3, -1),
    "resource_type": RESOURCE_TYPES,
    "resource_types": RESOURCE_TYPES,
    "config_operation": (*(0, 1) * 3, 2, 3, 4, -1),
    "max_version_level": (0, 1, 2, 3, -1, 32767),
    "upgrade_type": (1, 2, 3, 0, 4),
    "election_type": (0, 1, 2, -1),
    "endpoint_type": (1, 1, 2, 0, -1),
    "coordinator_epoch": (0, 0, 1, -1, 2**31 - 1),
}
"""Waits are short, so that a connection that waits for its answer does not stop the run."""

ARRAY_SIZES: dict[str, tuple[int, ...]] = {
    "topic_partitions": (*(0,) * 8, 1, 2),
    "assignments": (0, 0, 0, 1, 2),
    "feature_updates": (0, 1),
}


def _versioned(message: object, version: int) -> bytes:
    return version.to_bytes(2, "big") + bytes(encode(message, version))


_SUBSCRIPTION = _versioned(ConsumerProtocolSubscription(topics=["fuzz-0", "no-such-topic"]), 1)
_ASSIGNMENT = _versioned(
    ConsumerProtocolAssignment(
        assigned_partitions=[AssignmentTopicPartition(topic="fuzz-0", partitions=[0, 1])]
    ),
    1,
)
BYTES_POOLS: dict[str, tuple[bytes, ...]] = {
    "metadata": (_SUBSCRIPTION, _SUBSCRIPTION, _SUBSCRIPTION[:-3], b"", b"\xff\xff"),
    "assignment": (_ASSIGNMENT, _ASSIGNMENT, _ASSIGNMENT[:-3], b"", b"\xff\xff"),
}
