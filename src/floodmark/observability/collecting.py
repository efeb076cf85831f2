"""Copies the broker's numbers for one scrape. Called by `http`, on the broker's loop.

Only copies numbers, a few milliseconds at a time. `metrics` renders them.
"""

from __future__ import annotations

from floodmark.observability.catalog import OTHER_TOPICS
from floodmark.observability.health import disk_space
from floodmark.observability.lag import LagReader
from floodmark.observability.readings import Readings, Turns
from floodmark.observability.sources import Sources
from floodmark.replication.replica import Replica
from floodmark.security.quota_entities import (
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
)
from floodmark.vocabulary import NO_LEADER
from floodmark.wire.api_keys import ApiKey
from floodmark.wire.errors import ErrorCode

MAX_PARTITION_SERIES = 1_000
"""The most partitions with their own series, in all topics together: a scrape must stay short."""

MAX_QUOTA_SERIES = 1_000
"""The most users and client ids with their own series, because clients choose their ids."""

RESOURCES = {
    PRODUCER_BYTE_RATE: ("Produce", "kafka_server_quota_byte_rate"),
    CONSUMER_BYTE_RATE: ("Fetch", "kafka_server_quota_byte_rate"),
    REQUEST_PERCENTAGE: ("Request", "kafka_server_quota_request_time"),
    CONTROLLER_MUTATION_RATE: ("ControllerMutation", None),
}
"""Kafka's names for them, and the metric of the rate."""

RUNNING = 3
"""Kafka's BrokerState of a running broker."""


async def collect(sources: Sources) -> Readings:
    """The broker's current numbers. Those of one topic or group are consistent; different topics
    may be some milliseconds apart."""
    readings, turns = Readings(), Turns(sources.broker.clock)
    _requests(sources, readings)
    _network(sources, readings)
    _controller(sources, readings)
    _quotas(sources, readings)
    await turns.pause()
    await _partitions(sources, readings, turns)
    await _groups(sources, readings, turns)
    await _folders(sources, readings, turns)
    return readings


def api_name(key: int) -> str:
    """`LIST_OFFSETS` is `ListOffsets` in Kafka's metrics."""
    return "".join(word.capitalize() for word in ApiKey(key).name.split("_"))


def _requests(sources: Sources, readings: Readings) -> None:
    dispatch = sources.broker.dispatch
    for key, count in dispatch.requests.items():
        readings.add("kafka_network_requestmetrics_requests", count, api_name(key))
    failed = {ApiKey.PRODUCE: 0, ApiKey.FETCH: 0}
    for (key, error_code), count in dispatch.failures.counts.items():
        api_key, error = ApiKey(key), ErrorCode(error_code).name
        readings.add("kafka_network_requestmetrics_errors", count, api_name(key), error)
        if api_key in failed:
            failed[api_key] += count
    name = "kafka_server_brokertopicmetrics_"
    readings.add(name + "failedproducerequests", failed[ApiKey.PRODUCE])
    readings.add(name + "failedfetchrequests", failed[ApiKey.FETCH])
    readings.times = sources.timings.numbers()


def _network(sources: Sources, readings: Readings) -> None:
    network = sources.broker.network
    readings.add(
        "kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent",
        network.channel.idle_share(),
    )
    readings.add("kafka_network_requestchannel_requestqueuesize", network.channel.queue_size)
    readings.add("floodmark_network_internalerrors", network.channel.internal_errors)
    for acceptor in network.acceptors:
        readings.add(
            "kafka_network_acceptor_acceptorblocked_percent",
            acceptor.blocked_share(),
            acceptor.listener.name,
        )
        encryption = acceptor.listener.encryption
        if encryption is not None:
            label = acceptor.listener.name
            days = encryption.days_left(sources.broker.clock.now_ms())
            readings.add("floodmark_network_certificateexpirydays", days, label)
            failed = encryption.failed_handshakes
            readings.add("floodmark_network_failedhandshakes", failed, label)
    name = "kafka_server_socket_server_metrics_"
    for one in network.processors:
        label = str(one.index)
        under_way = one.responses_under_way
        readings.add("kafka_network_requestchannel_responsequeuesize", under_way, label)
        readings.add(name + "connection_count", len(one.connections), label)
        readings.add(name + "incoming_byte", one.bytes_in, label)
        readings.add(name + "outgoing_byte", one.bytes_out, label)


def _controller(sources: Sources, readings: Readings) -> None:
    image = sources.image
    live = len(image.live_brokers())
    leaders = [one.leader for topic in image.topics.values() for one in topic.partitions]
    name = "kafka_controller_kafkacontroller_"
    is_controller = image.controller_id == sources.broker.broker_id
    readings.add(name + "activecontrollercount", int(is_controller))
    readings.add(name + "activebrokercount", live)
    readings.add("kafka_brokers", live)
    readings.add(name + "globaltopiccount", len(image.topics))
    readings.add(name + "globalpartitioncount", len(leaders))
    readings.add(name + "offlinepartitionscount", leaders.count(NO_LEADER))
    readings.add("kafka_server_kafkaserver_brokerstate", RUNNING)


async def _partitions(sources: Sources, readings: Readings, turns: Turns) -> None:
    manager = sources.broker.replicas
    replicas = manager.replicas
    labelled, topics_left_out = sources.traffic.name_topics(one.topic_id for one in replicas)
    await sources.traffic.read(replicas, readings, turns)
    _replica_manager(sources, replicas, readings)
    await turns.pause()
    by_topic: dict[str, list[Replica]] = {}
    for replica in replicas:
        by_topic.setdefault(replica.key[0], []).append(replica)
    shown = left_out = left_out_bytes = 0
    for name, of_topic in by_topic.items():
        has_label = of_topic[0].topic_id in labelled
        if has_label:
            readings.add("kafka_topic_partitions", len(of_topic), name)
        if has_label and shown + len(of_topic) <= MAX_PARTITION_SERIES:
            shown += len(of_topic)
            for replica in of_topic:
                _partition(replica, readings)
                await turns.pause()
        else:
            left_out += len(of_topic)
            for replica in of_topic:
                left_out_bytes += replica.log.size_bytes
                await turns.pause()
    if left_out:
        readings.add("kafka_log_log_size", left_out_bytes, OTHER_TOPICS, "")
    readings.add("floodmark_metrics_left_out", topics_left_out, "topics")
    readings.add("floodmark_metrics_left_out", left_out, "partitions")


def _partition(replica: Replica, readings: Readings) -> None:
    labels = (replica.key[0], str(replica.key[1]))
    log = replica.log
    name = "kafka_log_log_"
    readings.add(name + "size", log.size_bytes, *labels)
    readings.add(name + "logendoffset", log.log_end_offset, *labels)
    readings.add(name + "logstartoffset", log.log_start_offset, *labels)
    readings.add(name + "numlogsegments", len(log.segments), *labels)
    name = "kafka_topic_partition_"
    readings.add(name + "current_offset", replica.core.high_watermark, *labels)
    readings.add(name + "oldest_offset", log.log_start_offset, *labels)
    readings.add(name + "under_replicated_partition", _is_under_replicated(replica), *labels)


def _is_under_replicated(replica: Replica) -> int:
    leadership = replica.core.leadership
    return int(
        replica.core.is_leader
        and len(leadership.in_sync_replicas) < len(leadership.assigned_replicas)
    )


def _quotas(sources: Sources, readings: Readings) -> None:
    measured = sources.broker.quotas.measured()
    for one in measured[:MAX_QUOTA_SERIES]:
        resource, rate = RESOURCES[one.quota]
        labels = (resource, one.user, one.client_id)
        if rate is not None:
            readings.add(rate, one.per_second, *labels)
        readings.add("kafka_server_quota_throttle_time", one.throttle_ms, *labels)
    if len(measured) > MAX_QUOTA_SERIES:
        readings.add("floodmark_metrics_left_out", len(measured) - MAX_QUOTA_SERIES, "quotas")


def _replica_manager(sources: Sources, replicas: list[Replica], readings: Readings) -> None:
    manager = sources.broker.replicas
    led = [replica for replica in replicas if replica.core.is_leader]
    too_few = [r for r in led if not r.core.has_enough_in_sync_replicas()]
    name = "kafka_server_replicamanager_"
    readings.add(name + "partitioncount", len(replicas))
    readings.add(name + "leadercount", len(led))
    readings.add(name + "offlinereplicacount", len(manager.offline))
    readings.add(name + "underreplicatedpartitions", sum(map(_is_under_replicated, led)))
    readings.add(name + "underminisrpartitioncount", len(too_few))
    readings.add(name + "isrshrinks", manager.isr_shrinks)
    readings.add(name + "isrexpands", manager.isr_expands)
    for role, quota in (
        ("leader", manager.quotas.leader),
        ("follower", manager.quotas.follower),
        ("alterlogdirs", manager.quotas.alter_log_dirs),
    ):
        readings.add(f"kafka_server_{role}replication_throttledbytes", quota.total_bytes)
    damaged = sum(replica.log.damaged_batches for replica in replicas)
    readings.add("floodmark_log_damagedbatches", damaged)
    name = "kafka_server_delayedoperationpurgatory_purgatorysize"
    readings.add(name, len(manager.produces), "Produce")
    readings.add(name, len(manager.fetches), "Fetch")
    sessions = sources.broker.fetch_sessions
    name = "kafka_server_fetchsessioncache_"
    readings.add(name + "numincrementalfetchsessions", len(sessions))
    readings.add(name + "numincrementalfetchpartitionscached", sessions.partitions_cached())


async def _groups(sources: Sources, readings: Readings, turns: Turns) -> None:
    reader = LagReader(sources.broker.replicas.replicas, readings, turns)
    max_groups = sources.broker.config.get_int("floodmark.metrics.max.groups")
    await reader.read(sources.broker.coordination.groups_if_any, max_groups)


async def _folders(sources: Sources, readings: Readings, turns: Turns) -> None:
    logs = sources.broker.logs
    for folder, (disk_bytes, free_bytes) in (await disk_space(sources)).items():
        readings.add("floodmark_logdir_disk_bytes", disk_bytes, str(folder))
        readings.add("floodmark_logdir_free_bytes", free_bytes, str(folder))
    sizes = dict.fromkeys(logs.dirs, 0)
    for replica in sources.broker.replicas.replicas:
        folder = replica.log.directory.parent
        if folder in sizes:
            sizes[folder] += replica.log.size_bytes
        await turns.pause()
    for folder, size_bytes in sizes.items():
        readings.add("floodmark_logdir_size_bytes", size_bytes, str(folder))
    name = "kafka_log_logmanager_"
    readings.add(name + "offlinelogdirectorycount", len(logs.offline_dirs))
    for folder in (*logs.dirs, *logs.offline_dirs):
        readings.add(name + "logdirectoryoffline", int(folder in logs.offline_dirs), str(folder))
