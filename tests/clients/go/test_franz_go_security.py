"""franz-go over TLS and SASL with every mechanism, and the errors that it shows."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from kit.certificates import Authority
from kit.go_program import built
from kit.json_clients import at, every_way_in, outcomes, wrong_ways
from kit.secure_broker import SecureBroker, secure_broker

pytestmark = [pytest.mark.go, pytest.mark.timeout(300)]


@pytest.fixture(scope="session")
def program() -> str:
    return str(built(Path(__file__).parent / "secure", "franz-go-secure"))


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureBroker]:
    with secure_broker(tmp_path_factory.mktemp("secure")) as running:
        yield running


def test_every_protocol_and_mechanism_works(secure, program, tmp_path):
    ways = every_way_in(secure)
    assert outcomes([program], tmp_path, ways) == ["ok"] * len(ways)


def test_failures_are_told_as_with_kafka(secure, program, tmp_path):
    ways = wrong_ways(secure, tmp_path)
    told = dict(zip(ways, outcomes([program], tmp_path, list(ways.values())), strict=True))
    assert "SASL_AUTHENTICATION_FAILED" in told["wrong PLAIN password"]
    assert "SASL_AUTHENTICATION_FAILED" in told["wrong SCRAM password"]
    # It does not read the refusal in a challenge (RFC 7628).
    assert told["expired token"] == "unexpected data in oauth response"
    assert "x509: certificate signed by unknown authority" in told["unknown authority"]


def test_an_expired_certificate_is_refused(program, tmp_path):
    authority = Authority(tmp_path / "certificates")
    expired = str(authority.expired_server())
    with secure_broker(tmp_path / "broker", ssl_keystore_location=expired) as secure:
        client = at(secure, "SSL") | {"ca": str(authority.ca_file)}
        (told,) = outcomes([program], tmp_path, [client])
    assert "x509: certificate has expired" in told


def test_a_listener_that_requires_a_certificate_refuses_clients_without(program, tmp_path):
    with secure_broker(tmp_path, ssl_client_auth="required") as secure:
        certificate = str(secure.authority.client("go"))
        expired = str(secure.authority.expired_client())
        clients = [
            at(secure, "SSL", certificate=certificate),
            at(secure, "SSL"),
            at(secure, "SSL", certificate=expired),
        ]
        with_one, without, with_expired = outcomes([program], tmp_path, clients)
    assert with_one == "ok"
    assert "expired certificate" in with_expired
    assert "certificate required" in without
