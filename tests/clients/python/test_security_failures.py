"""What clients written in Python say when they may not come in, or do not believe the broker.

kafka-python and aiokafka tell reasons in their logs only: with Kafka, too, they raise that no
broker can be reached.
"""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Producer

from floodmark.client.admin.admin import Admin
from floodmark.client.errors import KafkaError
from floodmark.client.settings import ClientSettings
from kit.certificates import Authority
from kit.json_clients import Settings, at, wrong_ways
from kit.secure_broker import secure_broker

WRONG = (
    "wrong PLAIN password",
    "wrong SCRAM password",
    "expired token",
    "unknown authority",
    "expired certificate",
    "no client certificate",
    "expired client certificate",
)


@pytest.fixture(scope="module")
def wrong(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Settings]]:
    folder = tmp_path_factory.mktemp("wrong")
    authority = Authority(folder / "expired-authority")
    expired = str(authority.expired_server())
    with (
        secure_broker(folder / "usual") as usual,
        secure_broker(folder / "expired", ssl_keystore_location=expired) as with_expired,
        secure_broker(folder / "strict", ssl_client_auth="required") as strict,
    ):
        yield {
            **wrong_ways(usual, folder),
            "expired certificate": at(with_expired, "SSL") | {"ca": str(authority.ca_file)},
            "no client certificate": at(strict, "SSL"),
            "expired client certificate": at(
                strict, "SSL", certificate=str(strict.authority.expired_client())
            ),
        }


def protocol(way: Settings) -> str:
    return "SASL_SSL" if "mechanism" in way else "SSL"


def librdkafka(way: Settings) -> str:
    errors: list[str] = []
    given: dict[str, Any] = {
        "bootstrap.servers": way["bootstrap"],
        "security.protocol": protocol(way),
        "ssl.ca.location": way["ca"],
        "error_cb": lambda error: errors.append(str(error)),
    }
    if "certificate" in way:
        pem = way["certificate"]
        given |= {"ssl.certificate.location": pem, "ssl.key.location": pem}
    if "token" in way:
        # It looks at the time that it is told, not into the token.
        token = (way["token"], time.time() + 600)
        given |= {"sasl.mechanism": "OAUTHBEARER", "oauth_cb": lambda _: token}
    elif "mechanism" in way:
        given |= {
            "sasl.mechanism": way["mechanism"],
            "sasl.username": way["user"],
            "sasl.password": way["password"],
        }
    producer = Producer(given)
    deadline = time.monotonic() + 20
    while not errors and time.monotonic() < deadline:
        producer.poll(0.1)
    return errors[0]


LIBRDKAFKA = {
    "wrong PLAIN password": "Authentication failed: Invalid username or password",
    "wrong SCRAM password": "invalid credentials with SASL mechanism SCRAM-SHA-512",
    "expired token": "invalid_token",
    # Sometimes with the advice to look at ssl.ca.location.
    "unknown authority": "certificate verify failed",
    "expired certificate": "certificate verify failed",
    "no client certificate": "certificate required",
    "expired client certificate": "certificate expired",
}


@pytest.mark.parametrize("what", WRONG)
def test_librdkafka(wrong, what):
    assert LIBRDKAFKA[what] in librdkafka(wrong[what])


def sasl_of(way: Settings) -> dict[str, Any]:
    """How kafka-python and aiokafka name it."""
    if "token" in way:
        return {"sasl_mechanism": "OAUTHBEARER", "token": way["token"]}
    if "mechanism" in way:
        return {
            "sasl_mechanism": way["mechanism"],
            "sasl_plain_username": way["user"],
            "sasl_plain_password": way["password"],
        }
    return {}


def assert_refused(program: str, given: dict[str, Any]) -> None:
    """In a process of its own: both leave sockets open when a client could not connect."""
    command = [sys.executable, "-W", "ignore", "-c", program, json.dumps(given)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    assert "refused:" in done.stdout, done.stderr


KAFKA_PYTHON = """
import json, sys
import kafka
from kafka.net.sasl.oauth import AbstractTokenProvider

class Tokens(AbstractTokenProvider):
    def token(self):
        return token

given = json.loads(sys.argv[1])
token = given.pop("token", None)
if token is not None:
    given["sasl_oauth_token_provider"] = Tokens()
try:
    kafka.KafkaProducer(bootstrap_timeout_ms=2000, **given)
except kafka.errors.KafkaError as problem:
    print("refused:", type(problem).__name__)
"""


@pytest.mark.parametrize("what", WRONG)
def test_kafka_python(wrong, what):
    way = wrong[what]
    given: dict[str, Any] = {
        "bootstrap_servers": way["bootstrap"],
        "security_protocol": protocol(way),
        "ssl_cafile": way["ca"],
    }
    if "certificate" in way:
        given |= {"ssl_certfile": way["certificate"], "ssl_keyfile": way["certificate"]}
    assert_refused(KAFKA_PYTHON, given | sasl_of(way))


AIOKAFKA = """
import asyncio, json, ssl, sys
import aiokafka
from aiokafka.abc import AbstractTokenProvider

class Tokens(AbstractTokenProvider):
    async def token(self):
        return token

given = json.loads(sys.argv[1])
token = given.pop("token", None)
if token is not None:
    given["sasl_oauth_token_provider"] = Tokens()
context = ssl.create_default_context(cafile=given.pop("ca"))
if "certificate" in given:
    context.load_cert_chain(given.pop("certificate"))

async def main():
    producer = aiokafka.AIOKafkaProducer(ssl_context=context, **given)
    try:
        await producer.start()
    except aiokafka.errors.KafkaError as problem:
        print("refused:", type(problem).__name__)
    finally:
        await producer.stop()

asyncio.run(main())
"""


@pytest.mark.parametrize("what", WRONG)
def test_aiokafka(wrong, what):
    way = wrong[what]
    given = {"bootstrap_servers": way["bootstrap"], "security_protocol": protocol(way)}
    given |= {name: way[name] for name in ("ca", "certificate") if name in way}
    assert_refused(AIOKAFKA, given | sasl_of(way))


OURS = {
    "wrong PLAIN password": "Authentication failed: Invalid username or password",
    "wrong SCRAM password": "invalid credentials with SASL mechanism SCRAM-SHA-512",
    "expired token": "invalid_token",
    "unknown authority": "was rejected",
    "expired certificate": "expired",
    "no client certificate": "certificate required",
    "expired client certificate": "certificate expired",
}


@pytest.mark.parametrize("what", WRONG)
async def test_ours(wrong, what):
    way = wrong[what]
    given: dict[str, Any] = {"sasl_mechanism": way["mechanism"]} if "mechanism" in way else {}
    if "certificate" in way:
        given |= {"ssl_keystore_type": "PEM", "ssl_keystore_location": way["certificate"]}
    if "token" in way:
        given |= {"sasl_oauthbearer_token": way["token"]}
    elif "mechanism" in way:
        given |= {"sasl_username": way["user"], "sasl_password": way["password"]}
    settings = ClientSettings(
        security_protocol=protocol(way),
        ssl_ca_location=way["ca"],
        default_api_timeout_ms=3000,
        **given,
    )
    with pytest.raises(KafkaError, match=OURS[what]):
        async with Admin(way["bootstrap"], settings) as admin:
            await admin.list_topics()
