"""kafkajs over TLS and SASL with every mechanism, and the errors that it shows."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from kit.certificates import Authority
from kit.json_clients import at, every_way_in, outcomes, wrong_ways
from kit.npm import npm_program
from kit.secure_broker import SecureBroker, secure_broker

pytestmark = [pytest.mark.javascript, pytest.mark.timeout(300)]

_HERE = Path(__file__).parent


@pytest.fixture(scope="session")
def command() -> list[str]:
    return ["node", str(npm_program(_HERE / "secure.js", _HERE / "package.json"))]


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureBroker]:
    with secure_broker(tmp_path_factory.mktemp("secure")) as running:
        yield running


def test_every_protocol_and_mechanism_works(secure, command, tmp_path):
    ways = every_way_in(secure)
    assert outcomes(command, tmp_path, ways) == ["ok"] * len(ways)


def test_failures_are_told_as_with_kafka(secure, command, tmp_path):
    ways = wrong_ways(secure, tmp_path)
    told = dict(zip(ways, outcomes(command, tmp_path, list(ways.values())), strict=True))
    assert told["wrong PLAIN password"].startswith("KafkaJSSASLAuthenticationError")
    assert told["wrong SCRAM password"].startswith("KafkaJSSASLAuthenticationError")
    # It takes the refusal in a challenge for a success (RFC 7628), and is put out afterwards.
    assert told["expired token"].startswith("KafkaJSConnectionClosedError")
    assert "certificate" in told["unknown authority"]


def test_an_expired_certificate_is_refused(command, tmp_path):
    authority = Authority(tmp_path / "certificates")
    expired = str(authority.expired_server())
    with secure_broker(tmp_path / "broker", ssl_keystore_location=expired) as secure:
        client = at(secure, "SSL") | {"ca": str(authority.ca_file)}
        (told,) = outcomes(command, tmp_path, [client])
    assert "certificate has expired" in told


def test_a_listener_that_requires_a_certificate_refuses_clients_without(command, tmp_path):
    with secure_broker(tmp_path, ssl_client_auth="required") as secure:
        certificate = str(secure.authority.client("javascript"))
        expired = str(secure.authority.expired_client())
        clients = [
            at(secure, "SSL", certificate=certificate),
            at(secure, "SSL"),
            at(secure, "SSL", certificate=expired),
        ]
        with_one, without, with_expired = outcomes(command, tmp_path, clients)
    assert with_one == "ok"
    assert with_expired.startswith("KafkaJS")
    assert without.startswith("KafkaJS")
