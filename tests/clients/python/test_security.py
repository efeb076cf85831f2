"""Clients written in Python over TLS and SASL with every mechanism that they know: each creates a
topic, produces in a transaction and consumes in a group. `test_security_failures.py` has the rest.
"""

import asyncio
import ssl
import time
import warnings
from collections.abc import Iterator
from typing import Any

import aiokafka
import pytest
from aiokafka.abc import AbstractTokenProvider as AioTokenProvider
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin import NewTopic as AioNewTopic
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from floodmark.client.admin.admin import Admin
from floodmark.client.admin.admin_types import NewTopic as OurNewTopic
from floodmark.client.consumer.consumer import Consumer as OurConsumer
from floodmark.client.producer.producer import Producer as OurProducer
from floodmark.client.settings import ClientSettings, ConsumerSettings, ProducerSettings
from floodmark.testing.broker_thread import fresh_topic_name
from kit.secure_broker import (
    ALICE,
    MECHANISMS,
    PASSWORD,
    SecureBroker,
    secure_broker,
    unsecured_token,
)

with warnings.catch_warnings():
    # Its own import calls what Python 3.11 deprecates; ours must stay strict.
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka
    import kafka.admin
    from kafka.net.sasl.oauth import AbstractTokenProvider

CERTIFICATE = "certificate"
PROTOCOLS = [
    ("SSL", ""),
    ("SSL", CERTIFICATE),
    *((protocol, m) for protocol in ("SASL_PLAINTEXT", "SASL_SSL") for m in MECHANISMS),
]
RECORDS = [b"%d" % number for number in range(50)]


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureBroker]:
    with secure_broker(tmp_path_factory.mktemp("secure"), ssl_client_auth="requested") as running:
        yield running


@pytest.mark.parametrize(("protocol", "mechanism"), PROTOCOLS)
def test_librdkafka(secure, protocol, mechanism):
    settings: dict[str, Any] = {
        "bootstrap.servers": secure.address(protocol),
        "security.protocol": protocol,
        "ssl.ca.location": str(secure.authority.ca_file),
    }
    if mechanism == CERTIFICATE:
        pem = str(secure.authority.client("rdkafka"))
        settings |= {"ssl.certificate.location": pem, "ssl.key.location": pem}
    elif mechanism == "OAUTHBEARER":
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
    topic = fresh_topic_name()
    admin = AdminClient(settings)
    created = admin.create_topics([NewTopic(topic, 1)])[topic]
    while not created.done():
        admin.poll(0.1)  # it asks for a token here
    created.result()
    producer = Producer({**settings, "transactional.id": topic})
    producer.init_transactions(20)
    producer.begin_transaction()
    for value in RECORDS:
        producer.produce(topic, value)
    producer.commit_transaction(20)
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
    if mechanism == CERTIFICATE:
        settings["ssl_context"].load_cert_chain(secure.authority.client("aiokafka"))
    elif mechanism == "OAUTHBEARER":
        settings |= {"sasl_mechanism": mechanism, "sasl_oauth_token_provider": AioTokens()}
    elif mechanism:
        settings |= {
            "sasl_mechanism": mechanism,
            "sasl_plain_username": ALICE,
            "sasl_plain_password": PASSWORD,
        }
    topic = fresh_topic_name()
    admin = AIOKafkaAdminClient(**settings)
    await admin.start()
    await admin.create_topics([AioNewTopic(topic, 1, 1)])
    await admin.close()
    transactional = aiokafka.AIOKafkaProducer(**settings, transactional_id=topic)
    async with transactional as producer, producer.transaction():
        for value in RECORDS:
            await producer.send_and_wait(topic, value)
    consumer = aiokafka.AIOKafkaConsumer(
        topic, group_id=topic, auto_offset_reset="earliest", **settings
    )
    async with consumer, asyncio.timeout(20):
        assert [(await consumer.getone()).value for _ in RECORDS] == RECORDS


class Tokens(AbstractTokenProvider):
    def token(self) -> str:
        return unsecured_token()


@pytest.mark.parametrize(("protocol", "mechanism"), PROTOCOLS)
def test_kafka_python(secure, protocol, mechanism):
    settings: dict[str, Any] = {
        "bootstrap_servers": secure.address(protocol),
        "security_protocol": protocol,
        "ssl_cafile": str(secure.authority.ca_file),
    }
    if mechanism == CERTIFICATE:
        pem = str(secure.authority.client("kafka-python"))
        settings |= {"ssl_certfile": pem, "ssl_keyfile": pem}
    elif mechanism == "OAUTHBEARER":
        settings |= {"sasl_mechanism": mechanism, "sasl_oauth_token_provider": Tokens()}
    elif mechanism:
        settings |= {
            "sasl_mechanism": mechanism,
            "sasl_plain_username": ALICE,
            "sasl_plain_password": PASSWORD,
        }
    topic = fresh_topic_name()
    admin = kafka.KafkaAdminClient(**settings)
    admin.create_topics([kafka.admin.NewTopic(topic, 1, 1)])
    admin.close()
    producer = kafka.KafkaProducer(**settings, transactional_id=topic)
    producer.init_transactions()
    producer.begin_transaction()
    for value in RECORDS:
        producer.send(topic, value)
    producer.commit_transaction()
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
    if mechanism == CERTIFICATE:
        pem = str(secure.authority.client("ours"))
        given = {"ssl_keystore_type": "PEM", "ssl_keystore_location": pem}
    elif mechanism == "OAUTHBEARER":
        given = {"sasl_mechanism": mechanism, "sasl_oauthbearer_token": unsecured_token}
    elif mechanism:
        given = {
            "sasl_mechanism": mechanism,
            "sasl_username": ALICE,
            "sasl_password": PASSWORD,
        }
    settings = secure.settings(protocol, **given)
    topic = fresh_topic_name()
    address = secure.address(protocol)
    async with Admin(address, ClientSettings(**settings)) as admin:
        await admin.create_topic(OurNewTopic(topic, 1, 1))
    sending = ProducerSettings(**settings, transactional_id=topic)
    async with OurProducer(address, sending) as producer:
        await producer.init_transactions()
        async with producer.transaction():
            for value in RECORDS:
                await producer.send(topic, value)
    reading = ConsumerSettings(**settings, group_id=topic, auto_offset_reset="earliest")
    async with OurConsumer(address, reading) as consumer, asyncio.timeout(20):
        await consumer.subscribe([topic])
        read: list[bytes | None] = []
        async for record in consumer:
            read.append(record.value)
            if len(read) == len(RECORDS):
                break
    assert read == RECORDS
