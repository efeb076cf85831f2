"""The broker's numbers in Prometheus' text form, under the names that dashboards for Kafka expect.

Called by `http` for each scrape. The names are those that the JMX exporter with its usual rules
makes of Kafka's own: `kafka.server:type=ReplicaManager,name=LeaderCount` is
`kafka_server_replicamanager_leadercount`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import generate_latest
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector, CollectorRegistry

from floodmark.observability.sources import Sources, TopicNumbers
from floodmark.observability.timings import QUANTILES
from floodmark.wire.api_keys import ApiKey

OTHER_TOPICS = "(other)"
"""Stands for the topics beyond `floodmark.metrics.max.topics`; no topic can have this name."""

RUNNING = 3
"""Kafka's BrokerState of a broker that serves."""


def collect(sources: Sources) -> list[Metric]:
    """The broker's numbers as they are now; on its loop, because nothing may change meanwhile."""
    return list(BrokerMetrics(sources).collect())


def render(metrics: list[Metric]) -> bytes:
    """The text of a scrape, with what the system knows of the process; in any thread."""
    registry = CollectorRegistry(auto_describe=False)
    ProcessCollector(registry=registry)
    registry.register(Collected(metrics))
    return generate_latest(registry)


class Collected(Collector):
    def __init__(self, metrics: list[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        return self._metrics


class BrokerMetrics:
    """Reads everything anew for each scrape and keeps nothing."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self._max_topics = sources.broker.config.get_int("floodmark.metrics.max.topics")

    def collect(self) -> Iterator[Metric]:
        yield from self._topics()
        yield from self._requests()
        yield from self._network()
        yield from self._replicas()
        yield from self._controller()

    def _topics(self) -> Iterator[Metric]:
        named, others = self._sources.topics(self._max_topics)
        shown: dict[str, TopicNumbers] = dict(named)
        if others.messages_in or others.size_bytes:
            shown[OTHER_TOPICS] = others
        prefix, label = "kafka_server_brokertopicmetrics_", ("topic",)
        yield _counter(
            prefix + "messagesin",
            "Records appended since the broker started.",
            label,
            {(name,): numbers.messages_in for name, numbers in shown.items()},
        )
        yield _counter(
            prefix + "bytesin",
            "Bytes of batches appended since the broker started, compressed as they are.",
            label,
            {(name,): numbers.bytes_in for name, numbers in shown.items()},
        )
        yield _counter(
            prefix + "bytesout",
            "Bytes of batches that consumers were given.",
            label,
            {(name,): numbers.bytes_out for name, numbers in shown.items()},
        )
        yield from _partitions(shown)

    def _requests(self) -> Iterator[Metric]:
        requests = self._sources.broker.dispatch.requests
        yield _counter(
            "kafka_network_requestmetrics_requests",
            "Requests read, by API.",
            ("request",),
            {(api_name(ApiKey(key)),): count for key, count in requests.items()},
        )
        yield _gauge(
            "kafka_network_requestmetrics_totaltimems",
            "Time from a request to its answer, waiting included, of a sample of requests.",
            ("request", "quantile"),
            {
                (api_name(key), str(quantile)): value
                for key, values in self._sources.timings.quantiles_ms().items()
                for quantile, value in zip(QUANTILES, values, strict=True)
            },
        )

    def _network(self) -> Iterator[Metric]:
        network = self._sources.broker.network
        yield _one(
            "kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent",
            "Share of time since the last scrape in which the request handlers were idle.",
            network.channel.idle_share(),
        )
        yield _one(
            "kafka_network_requestchannel_requestqueuesize",
            "Requests that wait for a handler.",
            network.channel.queue_size,
        )
        yield _gauge(
            "kafka_network_acceptor_acceptorblocked_percent",
            "Share of time since the last scrape in which the listener was full.",
            ("listener",),
            {(acceptor.listener.name,): acceptor.blocked_share() for acceptor in network.acceptors},
        )
        by_processor = {(str(p.index),): p for p in network.processors}
        label = ("networkprocessor",)
        yield _gauge(
            "kafka_network_requestchannel_responsequeuesize",
            "Requests read whose answer has not been sent.",
            label,
            {key: p.responses_under_way for key, p in by_processor.items()},
        )
        yield _gauge(
            "kafka_server_socket_server_metrics_connection_count",
            "Open connections.",
            label,
            {key: len(p.connections) for key, p in by_processor.items()},
        )
        yield _counter(
            "kafka_server_socket_server_metrics_incoming_byte",
            "Bytes of requests.",
            label,
            {key: p.bytes_in for key, p in by_processor.items()},
        )
        yield _counter(
            "kafka_server_socket_server_metrics_outgoing_byte",
            "Bytes of answers.",
            label,
            {key: p.bytes_out for key, p in by_processor.items()},
        )

    def _replicas(self) -> Iterator[Metric]:
        broker = self._sources.broker
        led = self._sources.led_partitions()
        name = "kafka_server_replicamanager_"
        yield _one(name + "partitioncount", "Partitions on this broker.", len(broker.replicas))
        yield _one(name + "leadercount", "Partitions that this broker leads.", len(led))
        yield _one(
            name + "offlinereplicacount",
            "Partitions whose log folder has failed.",
            len(broker.replicas.offline),
        )
        yield _one(
            "floodmark_log_damagedbatches",
            "Batches that reads have found changed on the disk since the start.",
            sum(replica.log.damaged_batches for replica in broker.replicas.replicas),
        )
        yield _one(
            name + "underreplicatedpartitions",
            "Led partitions of which a replica is not in sync.",
            sum(
                len(r.core.leadership.in_sync_replicas) < len(r.core.leadership.assigned_replicas)
                for r in led
            ),
        )
        yield _one(
            name + "underminisrpartitioncount",
            "Led partitions with fewer replicas in sync than min.insync.replicas.",
            sum(not r.core.has_enough_in_sync_replicas(r.min_in_sync_replicas) for r in led),
        )
        yield _gauge(
            "kafka_server_delayedoperationpurgatory_purgatorysize",
            "Requests that wait for an event or for their deadline.",
            ("delayedoperation",),
            {
                ("Produce",): len(broker.replicas.produces),
                ("Fetch",): len(broker.replicas.fetches),
            },
        )
        sessions = broker.fetch_sessions
        name = "kafka_server_fetchsessioncache_"
        yield _one(
            name + "numincrementalfetchsessions",
            "Fetch sessions that are remembered.",
            len(sessions),
        )
        yield _one(
            name + "numincrementalfetchpartitionscached",
            "Partitions named in those sessions.",
            sessions.partitions_cached(),
        )

    def _controller(self) -> Iterator[Metric]:
        image = self._sources.image
        broker_id = self._sources.broker.broker_id
        name = "kafka_controller_kafkacontroller_"
        yield _one(
            name + "activecontrollercount",
            "1 on the broker that is the controller.",
            int(image.controller_id == broker_id),
        )
        yield _one(name + "activebrokercount", "Live brokers.", len(image.live_brokers()))
        yield _one(name + "globaltopiccount", "Topics of the cluster.", len(image.topics))
        yield _one(
            name + "globalpartitioncount",
            "Partitions of the cluster.",
            sum(len(topic.partitions) for topic in image.topics.values()),
        )
        yield _one(
            name + "offlinepartitionscount",
            "Partitions without a leader.",
            self._sources.partitions_without_leader(),
        )
        yield _one("kafka_server_kafkaserver_brokerstate", "3 is running.", RUNNING)


def api_name(key: ApiKey) -> str:
    """`LIST_OFFSETS` is `ListOffsets` in Kafka's metrics."""
    return "".join(word.capitalize() for word in key.name.split("_"))


def _partitions(topics: Mapping[str, TopicNumbers]) -> Iterator[Metric]:
    label = ("topic", "partition")
    sizes: dict[tuple[str, ...], float] = {}
    ends: dict[tuple[str, ...], float] = {}
    starts: dict[tuple[str, ...], float] = {}
    segments: dict[tuple[str, ...], float] = {}
    for name, numbers in topics.items():
        for replica in numbers.partitions:
            key = (name, str(replica.key[1]))
            log = replica.log
            sizes[key], ends[key] = log.size_bytes, log.log_end_offset
            starts[key], segments[key] = log.log_start_offset, len(log.segments)
        if not numbers.partitions:
            sizes[(name, "")] = numbers.size_bytes
    yield _gauge("kafka_log_log_size", "Bytes of all segments.", label, sizes)
    yield _gauge("kafka_log_log_logendoffset", "The next offset to be written.", label, ends)
    yield _gauge("kafka_log_log_logstartoffset", "The first offset to be read.", label, starts)
    yield _gauge("kafka_log_log_numlogsegments", "Segments.", label, segments)


def _one(name: str, documentation: str, value: float) -> Metric:
    return GaugeMetricFamily(name, documentation, value=value)


def _gauge(
    name: str,
    documentation: str,
    labels: Sequence[str],
    values: Mapping[tuple[str, ...], float],
) -> Metric:
    family = GaugeMetricFamily(name, documentation, labels=labels)
    for key, value in values.items():
        family.add_metric(key, value)
    return family


def _counter(
    name: str,
    documentation: str,
    labels: Sequence[str],
    values: Mapping[tuple[str, ...], float],
) -> Metric:
    """`_total` is added to the name in the text form."""
    family = CounterMetricFamily(name, documentation, labels=labels)
    for key, value in values.items():
        family.add_metric(key, value)
    return family
