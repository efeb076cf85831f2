"""Clients written in Python over TLS and SASL with every mechanism that they know."""

import asyncio
import base64
import gc
import json
import ssl
import time
import warnings
from collections.abc import Iterator
from typing import Any

import aiokafka
import pytest
from aiokafka.abc import AbstractTokenProvider as AioTokenProvider
from confluent_kafka import Consumer, Producer

from floodmark.client.consumer.consumer import Consumer as OurConsumer
from floodmark.client.producer.producer import Producer as OurProducer
from floodmark.client.settings import ConsumerSettings, ProducerSettings
from kit.secure_broker import ALICE, MECHANISMS, PASSWORD, SecureBroker, secure_broker

with warnings.catch_warnings():
    # Its own import calls what Python 3.11 deprecates; ours must stay strict.
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka
    import kafka.errors

PROTOCOLS = [
    ("SSL", ""),
    *((protocol, m) for protocol in ("SASL_PLAINTEXT", "SASL_SSL") for m in MECHANISMS),
]
RECORDS = [b"%d" % number for number in range(50)]


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureBroker]:
    with secure_broker(tmp_path_factory.mktemp("secure"), ssl_client_auth="requested") as running:
        yield running


def unsecured_token() -> str:
    now = int(time.time())
    claims = {"sub": ALICE, "iat": now, "exp": now + 600}
    parts = [json.dumps(part).encode() for part in ({"alg": "none"}, claims)]
    return ".".join(base64.urlsafe_b64encode(part).decode().rstrip("=") for part in parts) + "."


@pytest.mark.parametrize(("protocol", "mechanism"), PROTOCOLS)
def test_librdkafka(secure, protocol, mechanism):
    pem = str(secure.authority.client("rdkafka"))
    settings: dict[str, Any] = {
        "bootstrap.servers": secure.address(protocol),
        "security.protocol": protocol,
        "ssl.ca.location": str(secure.authority.ca_file),
    }
    if protocol == "SSL":
        settings |= {"ssl.certificate.location": pem, "ssl.key.location": pem}
    if mechanism == "OAUTHBEARER":
        settings |= {
            "sasl.mechanism": mechanism,
            "oauth_cb": lambda _: (unsecured_token(), time.time() + 600),
        }
    elif mechanism:
        settings |= {
            "sasl.mechanism": mechanism,
            "sasl.username": ALICE,
            "sasl.password": PASSWORD,
        }
    topic = secure.broker.create_topic()
    producer = Producer(settings)
    for value in RECORDS:
        producer.produce(topic, value)
    assert producer.flush(20) == 0
    consumer = Consumer({**settings, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    read: list[bytes] = []
    deadline = time.monotonic() + 20
    while len(read) < len(RECORDS) and time.monotonic() < deadline:
        read += [message.value() for message in consumer.consume(100, 1)]
    consumer.close()
    assert read == RECORDS


class AioTokens(AioTokenProvider):
    async def token(self) -> str:
        return unsecured_token()


@pytest.mark.parametrize(("protocol", "mechanism"), PROTOCOLS)
async def test_aiokafka(secure, protocol, mechanism):
    settings: dict[str, Any] = {
        "bootstrap_servers": secure.address(protocol),
        "security_protocol": protocol,
        "ssl_context": ssl.create_default_context(cafile=str(secure.authority.ca_file)),
    }
    if mechanism == "OAUTHBEARER":
        settings |= {"sasl_mechanism": mechanism, "sasl_oauth_token_provider": AioTokens()}
    elif mechanism:
        settings |= {
            "sasl_mechanism": mechanism,
            "sasl_plain_username": ALICE,
            "sasl_plain_password": PASSWORD,
        }
    topic = secure.broker.create_topic()
    async with aiokafka.AIOKafkaProducer(**settings) as producer:
        for value in RECORDS:
            await producer.send_and_wait(topic, value)
    consumer = aiokafka.AIOKafkaConsumer(
        topic, group_id=topic, auto_offset_reset="earliest", **settings
    )
    async with consumer, asyncio.timeout(20):
        assert [(await consumer.getone()).value for _ in RECORDS] == RECORDS


@pytest.mark.parametrize(("protocol", "mechanism"), [p for p in PROTOCOLS if p[1] != "OAUTHBEARER"])
def test_kafka_python(secure, protocol, mechanism):
    settings: dict[str, Any] = {
        "bootstrap_servers": secure.address(protocol),
        "security_protocol": protocol,
        "ssl_cafile": str(secure.authority.ca_file),
    }
    if mechanism:
        settings |= {
            "sasl_mechanism": mechanism,
            "sasl_plain_username": ALICE,
            "sasl_plain_password": PASSWORD,
        }
    topic = secure.broker.create_topic()
    producer = kafka.KafkaProducer(**settings)
    for value in RECORDS:
        producer.send(topic, value)
    producer.flush(20)
    producer.close()
    consumer = kafka.KafkaConsumer(
        topic,
        group_id=topic,
        auto_offset_reset="earliest",
        consumer_timeout_ms=15_000,
        **settings,
    )
    read = [next(consumer).value for _ in RECORDS]
    consumer.close()
    assert read == RECORDS


@pytest.mark.parametrize(("protocol", "mechanism"), PROTOCOLS)
async def test_ours(secure, protocol, mechanism):
    given: dict[str, Any] = {}
    if mechanism == "OAUTHBEARER":
        given = {"sasl_mechanism": mechanism, "sasl_oauthbearer_token": unsecured_token}
    elif mechanism:
        given = {
            "sasl_mechanism": mechanism,
            "sasl_username": ALICE,
            "sasl_password": PASSWORD,
        }
    settings = secure.settings(protocol, **given)
    topic = secure.broker.create_topic()
    address = secure.address(protocol)
    async with OurProducer(address, ProducerSettings(**settings)) as producer:
        for value in RECORDS:
            await producer.send_and_wait(topic, value)
    reading = ConsumerSettings(**settings, group_id=topic, auto_offset_reset="earliest")
    async with OurConsumer(address, reading) as consumer, asyncio.timeout(20):
        await consumer.subscribe([topic])
        read: list[bytes | None] = []
        async for record in consumer:
            read.append(record.value)
            if len(read) == len(RECORDS):
                break
    assert read == RECORDS


# A wrong password, as each of them tells it


def test_librdkafka_tells_of_a_wrong_password(secure):
    errors: list[str] = []
    producer = Producer(
        {
            "bootstrap.servers": secure.address("SASL_SSL"),
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(secure.authority.ca_file),
            "sasl.mechanism": "PLAIN",
            "sasl.username": ALICE,
            "sasl.password": "wrong",
            "error_cb": lambda error: errors.append(str(error)),
        }
    )
    deadline = time.monotonic() + 20
    while not errors and time.monotonic() < deadline:
        producer.poll(0.1)
    assert "Authentication failed: Invalid username or password" in errors[0]


def test_kafka_python_tells_of_a_wrong_password(secure):
    with warnings.catch_warnings():
        # It leaves the sockets of a producer that could not connect to the garbage collector.
        warnings.simplefilter("ignore", ResourceWarning)
        with pytest.raises(kafka.errors.KafkaError):
            kafka.KafkaProducer(
                bootstrap_servers=secure.address("SASL_PLAINTEXT"),
                security_protocol="SASL_PLAINTEXT",
                sasl_mechanism="PLAIN",
                sasl_plain_username=ALICE,
                sasl_plain_password="wrong",
                bootstrap_timeout_ms=3000,
            )
        gc.collect()


async def test_aiokafka_tells_of_a_wrong_password(secure):
    producer = aiokafka.AIOKafkaProducer(
        bootstrap_servers=secure.address("SASL_PLAINTEXT"),
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="SCRAM-SHA-256",
        sasl_plain_username=ALICE,
        sasl_plain_password="wrong",
    )
    with pytest.raises(aiokafka.errors.KafkaError):
        await producer.start()
    await producer.stop()
