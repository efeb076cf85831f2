"""A broker for tests with TLS and SASL: `Broker(security=...)` and `broker.security`."""

from collections.abc import Iterator
from typing import Any

import pytest

from floodmark.client.admin.admin import Admin
from floodmark.client.errors import AuthenticationError, KafkaError
from floodmark.client.settings import ClientSettings
from floodmark.config.errors import ConfigError
from floodmark.security.sasl import MECHANISMS
from floodmark.testing.broker_thread import Broker


@pytest.fixture(scope="module", params=["SASL_SSL", "SASL_PLAINTEXT"])
def broker(request: pytest.FixtureRequest) -> Iterator[Broker]:
    with Broker(security=request.param) as running:
        yield running


async def topics(broker: Broker, given: dict[str, Any]) -> int:
    settings = ClientSettings(**{name.replace(".", "_"): v for name, v in given.items()})
    async with Admin(broker.bootstrap_servers, settings) as admin:
        return len(await admin.list_topics())


@pytest.mark.parametrize("mechanism", MECHANISMS)
async def test_its_user_logs_in_by_every_mechanism(broker, mechanism):
    given = broker.security.librdkafka(mechanism)
    if mechanism == "OAUTHBEARER":
        given["sasl.oauthbearer.token"] = broker.security.token()
    assert await topics(broker, given) >= 0


@pytest.mark.parametrize("mechanism", MECHANISMS)
async def test_the_settings_of_java_work_with_our_client(broker, mechanism):
    given = broker.security.java(mechanism)
    given.pop("sasl.login.callback.handler.class", None)
    assert await topics(broker, given) >= 0


@pytest.mark.parametrize(
    "change", [{"expires_in_s": -600}, {"iss": "https://somebody.else"}, {"sub": 7}]
)
async def test_tokens_that_do_not_count_are_refused(broker, change):
    given = broker.security.librdkafka("OAUTHBEARER")
    given["sasl.oauthbearer.token"] = broker.security.token(**change)
    with pytest.raises(AuthenticationError):
        await topics(broker, given)


async def test_more_users_can_be_added_and_survive_a_restart(broker):
    broker.add_user("alice", "alice-secret")
    broker.stop()
    broker.start()
    given = broker.security.librdkafka("SCRAM-SHA-512")
    login = {"sasl.username": "alice", "sasl.password": "alice-secret"}
    assert await topics(broker, given | login) >= 0
    with pytest.raises(AuthenticationError):
        await topics(broker, given | {"sasl.username": "alice", "sasl.password": "other"})


async def test_a_client_certificate_says_who_a_client_is():
    settings = {"ssl.client.auth": "required"}
    with Broker(security="SSL", settings=settings) as broker:
        pem = str(broker.security.client_certificate("alice"))
        given = broker.security.librdkafka()
        assert given.keys() == {"security.protocol", "ssl.ca.location"}
        both = {"ssl.certificate.location": pem, "ssl.key.location": pem}
        assert await topics(broker, given | both) == 0
        with pytest.raises(KafkaError):
            await topics(broker, given | {"default.api.timeout.ms": 2000})


def test_an_unknown_protocol_is_refused():
    with pytest.raises(ConfigError, match="use SSL, SASL_PLAINTEXT, SASL_SSL"):
        Broker(security="TLS")


def test_a_broker_without_security_says_so():
    with pytest.raises(RuntimeError, match="has no security"):
        _ = Broker().security
