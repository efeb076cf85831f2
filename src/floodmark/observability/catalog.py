"""Every metric of `/metrics`: name, kind, labels and description.

`metrics` renders from this table, and `tools/metrics_page.py` generates docs/metrics.md from it.
Names that start with `kafka_` are those that Kafka dashboards use: from the JMX exporter with its
usual rules (`kafka.server:type=ReplicaManager,name=LeaderCount` is
`kafka_server_replicamanager_leadercount`), or from kafka_exporter (topics and consumer groups).
All others start with `floodmark_`.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

Kind: TypeAlias = Literal["counter", "gauge", "summary", "histogram"]

OTHER_TOPICS = "(other)"
"""The label for all topics beyond `floodmark.metrics.max.topics`. No topic can have this name."""


class Described(NamedTuple):
    """At `/metrics`, `_total` is added to a counter's name."""

    name: str
    kind: Kind
    labels: tuple[str, ...]
    text: str


_TOPIC = ("topic",)
_PARTITION = ("topic", "partition")
_GROUP_PARTITION = ("consumergroup", "topic", "partition")
_GROUP_TOPIC = ("consumergroup", "topic")
_REQUEST = ("request",)
_FOLDER = ("logdirectory",)
_TIMES = ("request", "quantile")


def _counter(name: str, text: str, labels: tuple[str, ...] = ()) -> Described:
    return Described(name, "counter", labels, text)


def _gauge(name: str, text: str, labels: tuple[str, ...] = ()) -> Described:
    return Described(name, "gauge", labels, text)


def _summary(name: str, text: str, labels: tuple[str, ...]) -> Described:
    return Described(name, "summary", labels, text)


_TRAFFIC = (
    _counter(
        "kafka_server_brokertopicmetrics_messagesin",
        "Records appended. Without a label: all topics, also deleted ones.",
        _TOPIC,
    ),
    _counter(
        "kafka_server_brokertopicmetrics_bytesin",
        "Bytes of batches appended, compressed as they are. Without a label: all topics.",
        _TOPIC,
    ),
    _counter(
        "kafka_server_brokertopicmetrics_bytesout",
        "Bytes of batches given to consumers. Without a label: all topics.",
        _TOPIC,
    ),
    _counter(
        "kafka_server_brokertopicmetrics_failedproducerequests",
        "Partitions of produce requests that were answered with an error.",
    ),
    _counter(
        "kafka_server_brokertopicmetrics_failedfetchrequests",
        "Partitions of fetch requests, or whole ones, that were answered with an error.",
    ),
)

_REQUESTS = (
    _counter("kafka_network_requestmetrics_requests", "Requests read.", _REQUEST),
    _counter(
        "kafka_network_requestmetrics_errors",
        "Errors in answers, each partition, topic or group for itself. Successes are not counted.",
        ("request", "error"),
    ),
    _summary(
        "kafka_network_requestmetrics_totaltimems",
        "Milliseconds from a request to its answer, waiting included.",
        _TIMES,
    ),
    _summary(
        "kafka_network_requestmetrics_requestqueuetimems",
        "Milliseconds until one of num.io.threads slots was free.",
        _TIMES,
    ),
    _summary(
        "kafka_network_requestmetrics_localtimems",
        "Milliseconds of work, with decoding and encoding.",
        _TIMES,
    ),
    _summary(
        "kafka_network_requestmetrics_remotetimems",
        "Milliseconds parked: for data, followers, a flush or other members of a group.",
        _TIMES,
    ),
    _summary(
        "kafka_network_requestmetrics_responsesendtimems",
        "Milliseconds from the answer until the client's socket had taken it.",
        _TIMES,
    ),
    Described(
        "floodmark_request_duration_seconds",
        "histogram",
        ("request", "le"),
        "Time from a request to its answer, waiting included.",
    ),
    _counter(
        "floodmark_network_internalerrors",
        "Requests that a defect of the broker has ended. Please report it.",
    ),
)

_NETWORK = (
    _gauge(
        "kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent",
        "Share of time since the last scrape in which the request handlers were idle, 0 to 1.",
    ),
    _gauge("kafka_network_requestchannel_requestqueuesize", "Requests that wait for a handler."),
    _gauge(
        "kafka_network_acceptor_acceptorblocked_percent",
        "Share of time since the last scrape in which the listener was full, 0 to 1.",
        ("listener",),
    ),
    _gauge(
        "kafka_network_requestchannel_responsequeuesize",
        "Requests read whose answer has not been sent.",
        ("networkprocessor",),
    ),
    _gauge(
        "kafka_server_socket_server_metrics_connection_count",
        "Open connections.",
        ("networkprocessor",),
    ),
    _counter(
        "kafka_server_socket_server_metrics_incoming_byte",
        "Bytes of requests.",
        ("networkprocessor",),
    ),
    _counter(
        "kafka_server_socket_server_metrics_outgoing_byte",
        "Bytes of answers.",
        ("networkprocessor",),
    ),
    _gauge(
        "floodmark_network_certificateexpirydays",
        "Days until the certificate of a listener with TLS expires.",
        ("listener",),
    ),
    _counter(
        "floodmark_network_failedhandshakes",
        "TLS handshakes that failed.",
        ("listener",),
    ),
)

_REPLICAS = (
    _gauge("kafka_server_replicamanager_partitioncount", "Partitions on this broker."),
    _gauge("kafka_server_replicamanager_leadercount", "Partitions that this broker leads."),
    _gauge(
        "kafka_server_replicamanager_offlinereplicacount",
        "Partitions that cannot be served: their log folder has failed, or their files have.",
    ),
    _gauge(
        "kafka_server_replicamanager_underreplicatedpartitions",
        "Led partitions with a replica that is not in sync.",
    ),
    _gauge(
        "kafka_server_replicamanager_underminisrpartitioncount",
        "Led partitions with fewer replicas in sync than min.insync.replicas.",
    ),
    _counter(
        "kafka_server_replicamanager_isrshrinks", "In-sync replicas of a led partition got fewer."
    ),
    _counter(
        "kafka_server_replicamanager_isrexpands", "In-sync replicas of a led partition got more."
    ),
    _counter(
        "kafka_server_leaderreplication_throttledbytes",
        "Bytes sent to followers of throttled replicas.",
    ),
    _counter(
        "kafka_server_followerreplication_throttledbytes",
        "Bytes fetched for throttled replicas.",
    ),
    _counter(
        "kafka_server_alterlogdirsreplication_throttledbytes",
        "Bytes copied between log folders.",
    ),
    _gauge(
        "kafka_server_delayedoperationpurgatory_purgatorysize",
        "Requests that wait for an event or for their deadline.",
        ("delayedoperation",),
    ),
    _gauge(
        "kafka_server_fetchsessioncache_numincrementalfetchsessions",
        "Fetch sessions that are remembered.",
    ),
    _gauge(
        "kafka_server_fetchsessioncache_numincrementalfetchpartitionscached",
        "Partitions named in those sessions.",
    ),
)

_LOGS = (
    _gauge("kafka_log_log_size", "Bytes of all segments of a partition.", _PARTITION),
    _gauge("kafka_log_log_logendoffset", "The next offset to be written.", _PARTITION),
    _gauge("kafka_log_log_logstartoffset", "The first offset to be read.", _PARTITION),
    _gauge("kafka_log_log_numlogsegments", "Segments of a partition.", _PARTITION),
    _gauge("kafka_log_logmanager_offlinelogdirectorycount", "Log folders that have failed."),
    _gauge(
        "kafka_log_logmanager_logdirectoryoffline", "1 for a log folder that has failed.", _FOLDER
    ),
    _gauge("floodmark_logdir_size_bytes", "Bytes of all partitions in a log folder.", _FOLDER),
    _gauge("floodmark_logdir_disk_bytes", "Size of the disk that holds a log folder.", _FOLDER),
    _gauge("floodmark_logdir_free_bytes", "Bytes left on that disk.", _FOLDER),
    _gauge(
        "floodmark_log_damagedbatches",
        "Batches that reads have found changed on the disk since the start.",
    ),
)

_GROUPS = (
    _gauge("kafka_topic_partitions", "Partitions of a topic on this broker.", _TOPIC),
    _gauge(
        "kafka_topic_partition_current_offset",
        "The high watermark: the next offset that consumers will get.",
        _PARTITION,
    ),
    _gauge("kafka_topic_partition_oldest_offset", "The first offset to be read.", _PARTITION),
    _gauge(
        "kafka_topic_partition_under_replicated_partition",
        "1 for a partition with a replica that is not in sync.",
        _PARTITION,
    ),
    _gauge("kafka_consumergroup_members", "Members of a group.", ("consumergroup",)),
    _gauge("kafka_consumergroup_current_offset", "Committed offset of a group.", _GROUP_PARTITION),
    _gauge(
        "kafka_consumergroup_current_offset_sum",
        "Committed offsets of a group, all partitions of a topic.",
        _GROUP_TOPIC,
    ),
    _gauge(
        "kafka_consumergroup_lag",
        "Records between a group's committed offset and the high watermark.",
        _GROUP_PARTITION,
    ),
    _gauge(
        "kafka_consumergroup_lag_sum",
        "Lag of a group, all partitions of a topic that it has committed.",
        _GROUP_TOPIC,
    ),
)

_QUOTA = ("resource", "user", "clientId")
_QUOTAS = (
    _gauge(
        "kafka_server_quota_byte_rate",
        "Bytes per second of a user or client id with a quota: resources Produce and Fetch.",
        _QUOTA,
    ),
    _gauge(
        "kafka_server_quota_request_time",
        "Percent of the loop's time of a user or client id with a quota: resource Request.",
        _QUOTA,
    ),
    _gauge(
        "kafka_server_quota_throttle_time",
        "Milliseconds, the mean of answers that told a client to wait; 0 if none did lately. The "
        "resource ControllerMutation stands for topic changes.",
        _QUOTA,
    ),
)

_CLUSTER = (
    _gauge("kafka_brokers", "Live brokers."),
    _gauge(
        "kafka_controller_kafkacontroller_activecontrollercount",
        "1 on the broker that is the controller.",
    ),
    _gauge("kafka_controller_kafkacontroller_activebrokercount", "Live brokers."),
    _gauge("kafka_controller_kafkacontroller_globaltopiccount", "Topics of the cluster."),
    _gauge("kafka_controller_kafkacontroller_globalpartitioncount", "Partitions of the cluster."),
    _gauge(
        "kafka_controller_kafkacontroller_offlinepartitionscount", "Partitions without a leader."
    ),
    _gauge("kafka_server_kafkaserver_brokerstate", "3 is running."),
    _gauge(
        "floodmark_metrics_left_out",
        "Topics, partitions, groups and their parts that have no series of their own here.",
        ("kind",),
    ),
)

PROCESS = (
    _counter("process_cpu_seconds", "CPU time of the process, in user and system mode."),
    _gauge("process_resident_memory_bytes", "Resident memory."),
    _gauge("process_virtual_memory_bytes", "Virtual memory."),
    _gauge("process_start_time_seconds", "When the process started, in seconds since 1970."),
    _gauge("process_open_fds", "Open file descriptors: files and connections."),
    _gauge("process_max_fds", "How many it may open (ulimit -n)."),
)
"""Provided by prometheus_client, which reads them from the system."""

SECTIONS: dict[str, tuple[Described, ...]] = {
    "Traffic": _TRAFFIC,
    "Requests": _REQUESTS,
    "Network": _NETWORK,
    "Partitions and replicas": _REPLICAS,
    "Logs and disks": _LOGS,
    "Topics and consumer groups": _GROUPS,
    "Quotas": _QUOTAS,
    "Cluster": _CLUSTER,
    "Process": PROCESS,
}

CATALOG: dict[str, Described] = {
    described.name: described for section in SECTIONS.values() for described in section
}
