"""Kafka's error codes, as in responses.

Used by every API module, and by the client to decide which requests to retry. A code is an int, so
it can be used in a message directly.
"""

from enum import IntEnum
from typing import Final, Self

_RETRY = True
"""Marks the codes after which Kafka's own clients retry a request."""


class ErrorCode(IntEnum):
    """An error code with a description. `retriable` is the same as in Kafka's clients."""

    message: str
    retriable: bool

    def __new__(cls, code: int, message: str = "", retriable: bool = False) -> Self:
        member = int.__new__(cls, code)
        member._value_ = code
        member.message = message
        member.retriable = retriable
        return member

    @classmethod
    def of(cls, code: int) -> "ErrorCode":
        """The member for a code from the wire. Codes we do not know are unknown errors."""
        try:
            return cls(code)
        except ValueError:
            return cls.UNKNOWN_SERVER_ERROR

    UNKNOWN_SERVER_ERROR = -1, "an unexpected error in the broker"
    NONE = 0, "no error"
    OFFSET_OUT_OF_RANGE = 1, "the offset is outside the log"
    CORRUPT_MESSAGE = 2, "the batch is corrupt, or lacks a key that its topic requires", _RETRY
    UNKNOWN_TOPIC_OR_PARTITION = 3, "this broker does not have the partition", _RETRY
    INVALID_FETCH_SIZE = 4, "invalid fetch size"
    LEADER_NOT_AVAILABLE = 5, "the partition has no leader at the moment", _RETRY
    NOT_LEADER_OR_FOLLOWER = 6, "this broker does not lead the partition", _RETRY
    REQUEST_TIMED_OUT = 7, "the request timed out", _RETRY
    BROKER_NOT_AVAILABLE = 8, "the broker is not available"
    REPLICA_NOT_AVAILABLE = 9, "the replica is not available", _RETRY
    MESSAGE_TOO_LARGE = 10, "the batch is larger than the topic accepts"
    STALE_CONTROLLER_EPOCH = 11, "the sender is no longer the controller"
    OFFSET_METADATA_TOO_LARGE = 12, "the metadata of a committed offset is too long"
    NETWORK_EXCEPTION = 13, "the connection was lost before the response arrived", _RETRY
    COORDINATOR_LOAD_IN_PROGRESS = 14, "the coordinator is still loading its log", _RETRY
    COORDINATOR_NOT_AVAILABLE = 15, "no coordinator is available at the moment", _RETRY
    NOT_COORDINATOR = 16, "another broker is the coordinator", _RETRY
    INVALID_TOPIC_EXCEPTION = 17, "the topic name is invalid, or clients may not change the topic"
    RECORD_LIST_TOO_LARGE = 18, "the batches are larger than a segment"
    NOT_ENOUGH_REPLICAS = 19, "fewer replicas are in sync than min.insync.replicas", _RETRY
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20, "appended, but to too few in-sync replicas", _RETRY
    INVALID_REQUIRED_ACKS = 21, "acks must be -1, 0 or 1"
    ILLEGAL_GENERATION = 22, "the group has moved on to another generation"
    INCONSISTENT_GROUP_PROTOCOL = 23, "the member shares no protocol with its group"
    INVALID_GROUP_ID = 24, "invalid group id"
    UNKNOWN_MEMBER_ID = 25, "the group has no such member"
    INVALID_SESSION_TIMEOUT = 26, "the session timeout is outside the broker's limits"
    REBALANCE_IN_PROGRESS = 27, "the group is rebalancing; join again"
    INVALID_COMMIT_OFFSET_SIZE = 28, "the commit is too large to be stored"
    TOPIC_AUTHORIZATION_FAILED = 29, "not allowed on this topic"
    GROUP_AUTHORIZATION_FAILED = 30, "not allowed on this group"
    CLUSTER_AUTHORIZATION_FAILED = 31, "not allowed on this cluster"
    INVALID_TIMESTAMP = 32, "a record's timestamp is out of range"
    UNSUPPORTED_SASL_MECHANISM = 33, "the SASL mechanism is not enabled"
    ILLEGAL_SASL_STATE = 34, "the request is not valid in this state of the authentication"
    UNSUPPORTED_VERSION = 35, "the broker does not support this version of the API"
    TOPIC_ALREADY_EXISTS = 36, "a topic with this name already exists"
    INVALID_PARTITIONS = 37, "invalid number of partitions"
    INVALID_REPLICATION_FACTOR = 38, "the replication factor must be from 1 to the live brokers"
    INVALID_REPLICA_ASSIGNMENT = 39, "invalid replica assignment"
    INVALID_CONFIG = 40, "unknown setting or invalid value"
    NOT_CONTROLLER = 41, "another broker is the controller", _RETRY
    INVALID_REQUEST = 42, "invalid request"
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43, "the stored record format does not support this"
    POLICY_VIOLATION = 44, "a policy of the cluster forbids it"
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45, "the producer's sequence has a gap"
    DUPLICATE_SEQUENCE_NUMBER = 46, "the batch was already appended"
    INVALID_PRODUCER_EPOCH = 47, "the producer's epoch is too old"
    INVALID_TXN_STATE = 48, "the transaction's state does not allow this"
    INVALID_PRODUCER_ID_MAPPING = 49, "the producer id does not belong to the transactional id"
    INVALID_TRANSACTION_TIMEOUT = 50, "the transaction timeout exceeds transaction.max.timeout.ms"
    CONCURRENT_TRANSACTIONS = 51, "another change of the transaction is in progress", _RETRY
    TRANSACTION_COORDINATOR_FENCED = 52, "the sender is no longer the transaction's coordinator"
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53, "not allowed with this transactional id"
    SECURITY_DISABLED = 54, "no authorizer is configured"
    OPERATION_NOT_ATTEMPTED = 55, "not attempted, because another part of the request failed"
    KAFKA_STORAGE_ERROR = 56, "the log folder failed", _RETRY
    LOG_DIR_NOT_FOUND = 57, "the broker has no such log folder"
    SASL_AUTHENTICATION_FAILED = 58, "the credentials were refused"
    UNKNOWN_PRODUCER_ID = 59, "the partition does not know this producer"
    REASSIGNMENT_IN_PROGRESS = 60, "the partition is being moved"
    DELEGATION_TOKEN_AUTH_DISABLED = 61, "delegation tokens are not enabled"
    DELEGATION_TOKEN_NOT_FOUND = 62, "the delegation token does not exist"
    DELEGATION_TOKEN_OWNER_MISMATCH = 63, "the principal is neither owner nor renewer of the token"
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED = 64, "token requests need a more secure authentication"
    DELEGATION_TOKEN_AUTHORIZATION_FAILED = 65, "not allowed on this delegation token"
    DELEGATION_TOKEN_EXPIRED = 66, "the delegation token has expired"
    INVALID_PRINCIPAL_TYPE = 67, "principals of this type are not supported"
    NON_EMPTY_GROUP = 68, "the group still has members"
    GROUP_ID_NOT_FOUND = 69, "the group does not exist"
    FETCH_SESSION_ID_NOT_FOUND = 70, "the fetch session is gone", _RETRY
    INVALID_FETCH_SESSION_EPOCH = 71, "the fetch session expected another epoch", _RETRY
    LISTENER_NOT_FOUND = 72, "the leader lacks the listener that the request used", _RETRY
    TOPIC_DELETION_DISABLED = 73, "delete.topic.enable is false"
    FENCED_LEADER_EPOCH = 74, "the client knows an older leader epoch", _RETRY
    UNKNOWN_LEADER_EPOCH = 75, "the client knows a newer leader epoch", _RETRY
    UNSUPPORTED_COMPRESSION_TYPE = 76, "the request version does not allow this compression"
    STALE_BROKER_EPOCH = 77, "the broker has registered again since then"
    OFFSET_NOT_AVAILABLE = 78, "the new leader's high watermark must catch up first", _RETRY
    MEMBER_ID_REQUIRED = 79, "join again with the member id in this response"
    PREFERRED_LEADER_NOT_AVAILABLE = 80, "the preferred leader is not available", _RETRY
    GROUP_MAX_SIZE_REACHED = 81, "the group is full"
    FENCED_INSTANCE_ID = 82, "another member has taken over the group instance id"
    ELIGIBLE_LEADERS_NOT_AVAILABLE = 83, "no eligible leader is available", _RETRY
    ELECTION_NOT_NEEDED = 84, "the partition already has that leader", _RETRY
    NO_REASSIGNMENT_IN_PROGRESS = 85, "the partition is not being moved"
    GROUP_SUBSCRIBED_TO_TOPIC = 86, "the group still subscribes to the topic"
    INVALID_RECORD = 87, "a record violates the rules of its topic"
    UNSTABLE_OFFSET_COMMIT = 88, "an open transaction holds offsets of the group", _RETRY
    THROTTLING_QUOTA_EXCEEDED = 89, "the quota is exceeded; retry later", _RETRY
    PRODUCER_FENCED = 90, "a newer producer uses the transactional id"
    RESOURCE_NOT_FOUND = 91, "the resource does not exist"
    DUPLICATE_RESOURCE = 92, "the request names a resource twice"
    UNACCEPTABLE_CREDENTIAL = 93, "unacceptable credential"
    INCONSISTENT_VOTER_SET = 94, "the sender or the receiver is not among the voters"
    INVALID_UPDATE_VERSION = 95, "the feature cannot be set to this version"
    FEATURE_UPDATE_FAILED = 96, "the features could not be updated"
    PRINCIPAL_DESERIALIZATION_FAILURE = 97, "the forwarded principal could not be read"
    SNAPSHOT_NOT_FOUND = 98, "the snapshot does not exist"
    POSITION_OUT_OF_RANGE = 99, "the position is outside the snapshot"
    UNKNOWN_TOPIC_ID = 100, "this broker does not know the topic id", _RETRY
    DUPLICATE_BROKER_REGISTRATION = 101, "another broker uses this id"
    BROKER_ID_NOT_REGISTERED = 102, "no broker with this id is registered"
    INCONSISTENT_TOPIC_ID = 103, "the log belongs to another topic id", _RETRY
    INCONSISTENT_CLUSTER_ID = 104, "the request is meant for another cluster"
    TRANSACTIONAL_ID_NOT_FOUND = 105, "the transactional id does not exist"
    FETCH_SESSION_TOPIC_ID_ERROR = 106, "the fetch session mixes topic ids and names", _RETRY
    INELIGIBLE_REPLICA = 107, "a replica of the new ISR is not eligible"
    NEW_LEADER_ELECTED = 108, "the change was made, and another replica leads now"
    OFFSET_MOVED_TO_TIERED_STORAGE = 109, "the offset is in tiered storage"
    FENCED_MEMBER_EPOCH = 110, "the member was fenced: give up all partitions and join again"
    UNRELEASED_INSTANCE_ID = 111, "another member still holds the instance id"
    UNSUPPORTED_ASSIGNOR = 112, "the group does not know this assignor"
    STALE_MEMBER_EPOCH = 113, "outdated member epoch; the next heartbeat returns the new one"
    MISMATCHED_ENDPOINT_TYPE = 114, "the request went to an endpoint of another type"
    UNSUPPORTED_ENDPOINT_TYPE = 115, "endpoints of this type are not supported"
    UNKNOWN_CONTROLLER_ID = 116, "no controller has this id"
    UNKNOWN_SUBSCRIPTION_ID = 117, "the telemetry subscription is unknown or outdated"
    TELEMETRY_TOO_LARGE = 118, "more telemetry than the broker accepts at once"
    INVALID_REGISTRATION = 119, "the controller refused the broker's registration"
    TRANSACTION_ABORTABLE = 120, "the transaction failed; abort it and continue"
    INVALID_RECORD_STATE = 121, "the record's state does not allow an acknowledgement"
    SHARE_SESSION_NOT_FOUND = 122, "the share session is gone", _RETRY
    INVALID_SHARE_SESSION_EPOCH = 123, "the share session expected another epoch", _RETRY
    FENCED_STATE_EPOCH = 124, "the share group's state has another epoch"
    INVALID_VOTER_KEY = 125, "the voter's key does not match the receiver's"
    DUPLICATE_VOTER = 126, "the voter is already in the set"
    VOTER_NOT_FOUND = 127, "the voter is not in the set"
    INVALID_REGULAR_EXPRESSION = 128, "invalid regular expression"
    REBOOTSTRAP_REQUIRED = 129, "start again from the bootstrap servers"
    STREAMS_INVALID_TOPOLOGY = 130, "invalid topology"
    STREAMS_INVALID_TOPOLOGY_EPOCH = 131, "invalid topology epoch"
    STREAMS_TOPOLOGY_FENCED = 132, "a newer topology has replaced this one"
    SHARE_SESSION_LIMIT_REACHED = 133, "no more share sessions can be opened", _RETRY


NO_ERROR: Final = ErrorCode.NONE
"""For the hot path: looking up an enum member takes 0.1 us on Python 3.11."""
