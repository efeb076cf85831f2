"""Java's clients over TLS and SASL with every mechanism, and the errors that they show."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from floodmark.testing.broker_thread import Broker
from kit.certificates import STORE_PASSWORD, Authority, as_pkcs12
from kit.jars import KAFKA_3, KAFKA_4, jars
from kit.java_program import run_java
from kit.secure_broker import ALICE, MECHANISMS, PASSWORD, SecureBroker, secure_broker
from kit.tools import require_tool

pytestmark = [pytest.mark.java, pytest.mark.timeout(180)]

SOURCE = Path(__file__).with_name("SecureClient.java")
LOGIN_MODULES = {
    "PLAIN": "plain.PlainLoginModule",
    "SCRAM-SHA-256": "scram.ScramLoginModule",
    "SCRAM-SHA-512": "scram.ScramLoginModule",
}


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureBroker]:
    require_tool("java", "javac", "mvn")
    folder = tmp_path_factory.mktemp("secure")
    with secure_broker(folder, connections_max_reauth_ms="4000") as running:
        yield running


def jaas(mechanism: str, password: str = PASSWORD) -> dict[str, str]:
    package = "org.apache.kafka.common.security."
    if mechanism == "OAUTHBEARER":
        line = (
            f'oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="{ALICE}";'
        )
    else:
        line = f'{LOGIN_MODULES[mechanism]} required username="{ALICE}" password="{password}";'
    return {"sasl.mechanism": mechanism, "sasl.jaas.config": package + line}


def trusting(ca_file: Path) -> dict[str, str]:
    return {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(ca_file)}


def outcomes(
    secure: SecureBroker, folder: Path, clients: Sequence[Mapping[str, str]], version: str = KAFKA_4
) -> list[str]:
    """Of each client: its protocol is that of the listener of the same name."""
    addresses = [secure.address(client["security.protocol"]) for client in clients]
    return outcomes_at(addresses, folder, clients, version)


def outcomes_at(
    addresses: list[str], folder: Path, clients: Sequence[Mapping[str, str]], version: str
) -> list[str]:
    files = []
    for number, (address, client) in enumerate(zip(addresses, clients, strict=True)):
        lines = {"bootstrap.servers": address, **client}
        path = folder / f"{number}.properties"
        path.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
        files.append(str(path))
    libraries = jars(
        f"org.apache.kafka:kafka-clients:{version}",
        "org.slf4j:slf4j-nop:1.7.36",
        # What kafka-clients needs for OAUTHBEARER and does not bring along.
        "com.fasterxml.jackson.core:jackson-databind:2.16.2",
        "org.bitbucket.b_c:jose4j:0.9.6",
    )
    out = run_java(SOURCE, libraries, *files, timeout_s=170)
    return out.splitlines()


@pytest.mark.parametrize("version", [KAFKA_4, KAFKA_3])
def test_every_protocol_and_mechanism_works(secure, tmp_path, version):
    trust = trusting(secure.authority.ca_file)
    pem = secure.authority.client("java")
    certificate = {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(pem)}
    pkcs12 = {
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.location": str(as_pkcs12(pem)),
        "ssl.keystore.password": STORE_PASSWORD,
    }
    clients = [
        {"security.protocol": "SSL", **trust},
        {"security.protocol": "SSL", **trust, **certificate},
        {"security.protocol": "SSL", **trust, **pkcs12, "ssl.enabled.protocols": "TLSv1.2"},
    ]
    for mechanism in MECHANISMS:
        clients.append({"security.protocol": "SASL_PLAINTEXT", **jaas(mechanism)})
        clients.append({"security.protocol": "SASL_SSL", **trust, **jaas(mechanism)})
    assert outcomes(secure, tmp_path, clients, version) == ["ok"] * len(clients)


@pytest.mark.parametrize("version", [KAFKA_4, KAFKA_3])
def test_failures_show_the_errors_that_kafka_users_know(secure, tmp_path, version):
    trust = trusting(secure.authority.ca_file)
    other = trusting(Authority(tmp_path / "other").ca_file)
    clients = [
        {"security.protocol": "SASL_SSL", **trust, **jaas("PLAIN", "wrong")},
        {"security.protocol": "SASL_SSL", **trust, **jaas("SCRAM-SHA-256", "wrong")},
        {"security.protocol": "SSL", **other},
    ]
    plain, scram, unknown_authority = outcomes(secure, tmp_path, clients, version)
    assert plain == (
        "SaslAuthenticationException: Authentication failed: Invalid username or password"
    )
    assert scram == (
        "SaslAuthenticationException: Authentication failed during authentication due to invalid "
        "credentials with SASL mechanism SCRAM-SHA-256"
    )
    assert unknown_authority == "SslAuthenticationException: SSL handshake failed"


@pytest.mark.parametrize("version", [KAFKA_4, KAFKA_3])
def test_signed_tokens_count_until_they_expire(tmp_path, version):
    require_tool("java", "javac", "mvn")
    with Broker(security="SASL_SSL") as broker:
        valid = broker.security.java("OAUTHBEARER")
        url = broker.security.token_url(expires_in_s=-600)
        expired = valid | {"sasl.oauthbearer.token.endpoint.url": url}
        addresses = [broker.bootstrap_servers] * 2
        outcomes = outcomes_at(addresses, tmp_path, [valid, expired], version)
    assert outcomes == ["ok", 'SaslAuthenticationException: {"status":"invalid_token"}']


def test_a_listener_that_requires_a_certificate_refuses_clients_without(tmp_path):
    with secure_broker(tmp_path, ssl_client_auth="required") as secure:
        client = {"security.protocol": "SSL", **trusting(secure.authority.ca_file)}
        pem = str(secure.authority.client("java"))
        certificate = {"ssl.keystore.type": "PEM", "ssl.keystore.location": pem}
        expired = {**certificate, "ssl.keystore.location": str(secure.authority.expired_client())}
        clients = [{**client, **certificate}, client, {**client, **expired}]
        with_one, without, with_expired = outcomes(secure, tmp_path, clients)
    assert with_one == "ok"
    assert with_expired.startswith("SslAuthenticationException")
    assert without.startswith("SslAuthenticationException")


def test_an_expired_certificate_is_refused(tmp_path):
    authority = Authority(tmp_path / "certificates")
    expired = str(authority.expired_server())
    with secure_broker(tmp_path / "broker", ssl_keystore_location=expired) as secure:
        client = {"security.protocol": "SSL", **trusting(authority.ca_file)}
        (outcome,) = outcomes(secure, tmp_path, [client])
    assert outcome == "SslAuthenticationException: SSL handshake failed"
