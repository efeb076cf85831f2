"""/metrics and /healthz of a running broker, as Prometheus and an orchestrator see them."""

import asyncio
import json
import random
import urllib.error
import urllib.request
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer
from prometheus_client.parser import text_string_to_metric_families

from floodmark.client.admin.admin import Admin
from floodmark.client.cluster.view import TopicPartition
from floodmark.client.consumer.consumer import Consumer
from floodmark.client.producer.producer import Producer as FloodmarkProducer
from floodmark.observability.http import MetricsServer, serve_metrics
from floodmark.testing.broker_thread import BrokerThread

LEFT_OUT = "floodmark_metrics_left_out"
Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


@pytest.fixture
def metrics(floodmark: BrokerThread) -> Iterator[MetricsServer]:
    server = floodmark.call(serve_metrics(floodmark.broker, 0))
    yield server
    floodmark.call(server.close())


def get(server: MetricsServer, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://{server.host}:{server.port}{path}") as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as refusal:
        with refusal:
            return refusal.code, refusal.read().decode()


def scrape(server: MetricsServer) -> Samples:
    status, text = get(server, "/metrics")
    assert status == 200
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def produce(bootstrap_servers: str, topic: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap_servers})
    for _ in range(count):
        producer.produce(topic, b"value")
    assert producer.flush(20) == 0


def test_a_scrape_shows_what_the_broker_did(
    floodmark: BrokerThread, metrics: MetricsServer
) -> None:
    topic = floodmark.create_topic("orders", 2)
    produce(floodmark.bootstrap_servers, topic, 10)
    samples = scrape(metrics)
    of_topic = (("topic", topic),)
    assert samples["kafka_server_brokertopicmetrics_messagesin_total", of_topic] == 10
    assert samples["kafka_network_requestmetrics_requests_total", (("request", "Produce"),)] >= 1
    assert samples["kafka_server_replicamanager_partitioncount", ()] == 2
    assert samples["kafka_server_replicamanager_leadercount", ()] == 2
    assert samples["kafka_server_replicamanager_underreplicatedpartitions", ()] == 0
    assert samples["kafka_controller_kafkacontroller_activecontrollercount", ()] == 1
    assert samples["kafka_controller_kafkacontroller_offlinepartitionscount", ()] == 0
    ends = [
        samples["kafka_log_log_logendoffset", (("partition", str(p)), ("topic", topic))]
        for p in range(2)
    ]
    assert sum(ends) == 10
    idle = samples["kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent", ()]
    assert 0 <= idle <= 1
    assert samples["process_resident_memory_bytes", ()] > 1_000_000


def test_records_from_before_the_start_are_not_counted_again(
    floodmark: BrokerThread, floodmark_topic: str
) -> None:
    produce(floodmark.bootstrap_servers, floodmark_topic, 5)
    server = floodmark.call(serve_metrics(floodmark.broker, 0))
    try:
        produce(floodmark.bootstrap_servers, floodmark_topic, 2)
        samples = scrape(server)
    finally:
        floodmark.call(server.close())
    name = "kafka_server_brokertopicmetrics_messagesin_total"
    assert samples[name, (("topic", floodmark_topic),)] == 2


async def test_bytes_in_and_out_are_counted_by_topic_and_survive_retention(
    floodmark: BrokerThread, metrics: MetricsServer
) -> None:
    small = {"segment.bytes": str(1024 * 1024)}
    topic = floodmark.create_topic("orders", 1, small)
    value = random.randbytes(100_000)
    async with FloodmarkProducer(floodmark.bootstrap_servers) as producer:
        for _ in range(25):
            await producer.send_and_wait(topic, value)
    bytes_in = ("kafka_server_brokertopicmetrics_bytesin_total", (("topic", topic),))
    bytes_out = ("kafka_server_brokertopicmetrics_bytesout_total", (("topic", topic),))
    size = ("kafka_log_log_size", (("partition", "0"), ("topic", topic)))
    before = await asyncio.to_thread(scrape, metrics)
    assert before[bytes_in] == before[size] > 2_500_000
    assert before[bytes_out] == 0
    partition = TopicPartition(topic, 0)
    async with Consumer(floodmark.bootstrap_servers) as consumer:
        await consumer.assign([partition])
        consumer.seek_to_beginning()
        while await consumer.position(partition) < 25:
            await consumer.poll()
        deleted = await Admin(consumer.cluster).delete_records({partition: 24})
        assert deleted == {partition: 24}
    removed = floodmark.call(remove_old_segments(floodmark, topic))
    assert removed == 2
    after = await asyncio.to_thread(scrape, metrics)
    assert after[size] < before[size]
    assert after[bytes_in] == before[bytes_in]
    assert after[bytes_out] == before[bytes_in]


async def remove_old_segments(floodmark: BrokerThread, topic: str) -> int:
    """What retention does when its time comes."""
    replica = floodmark.broker.replicas.find((topic, 0))
    assert replica is not None
    count = len(replica.log.segments) - 1
    replica.log.retire(replica.log.detach_oldest(count, floodmark.broker.clock.now_ms()))
    return count


class TestWithFewLabels:
    @pytest.fixture
    def floodmark_settings(self) -> dict[str, str]:
        return {"floodmark.metrics.max.topics": "2"}

    def test_topics_beyond_the_cap_are_summed_up(
        self, floodmark: BrokerThread, metrics: MetricsServer
    ) -> None:
        for number in range(5):
            produce(
                floodmark.bootstrap_servers, floodmark.create_topic(f"topic-{number}"), number + 1
            )
        samples = scrape(metrics)
        counts = {
            dict(labels)["topic"]: value
            for (name, labels), value in samples.items()
            if name == "kafka_server_brokertopicmetrics_messagesin_total" and labels
        }
        assert len(counts) == 3
        assert sum(counts.values()) == 1 + 2 + 3 + 4 + 5
        assert counts["(other)"] > 0
        assert samples["kafka_server_brokertopicmetrics_messagesin_total", ()] == 15
        left_out = {
            dict(labels)["kind"]: n for (name, labels), n in samples.items() if name == LEFT_OUT
        }
        assert left_out["topics"] == left_out["partitions"] == 3
        topics = {dict(labels).get("topic") for _, labels in samples}
        assert len(topics - {None}) == 3


def test_request_times_are_sampled_while_somebody_may_ask(
    floodmark: BrokerThread, metrics: MetricsServer, floodmark_topic: str
) -> None:
    for _ in range(10):
        produce(floodmark.bootstrap_servers, floodmark_topic, 1)
    name = "kafka_network_requestmetrics_totaltimems"
    assert [value for (found, _), value in scrape(metrics).items() if found == name]


def test_a_serving_broker_is_healthy(floodmark: BrokerThread, metrics: MetricsServer) -> None:
    floodmark.create_topic("t", 3)
    status, body = get(metrics, "/healthz")
    assert status == 200
    assert json.loads(body) == {
        "status": "serving",
        "broker_id": floodmark.broker.broker_id,
        "partitions": 3,
        "offline_partitions": 0,
    }


def test_a_broker_that_stops_is_not_healthy(
    floodmark: BrokerThread, metrics: MetricsServer
) -> None:
    floodmark.broker.is_serving = False
    try:
        status, body = get(metrics, "/healthz")
    finally:
        floodmark.broker.is_serving = True
    assert status == 503
    assert json.loads(body)["status"] == "not serving"
