"""Kafka's DelegationTokenCommand, and Java's clients that log in with a token of its making."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from kit.acls import STANDARD_AUTHORIZER
from kit.jars import KAFKA_3, KAFKA_4, jars
from kit.java_program import run_java
from kit.kafka_tools import kafka_tool
from kit.secure_broker import ALICE, PASSWORD, SecureBroker, secure_broker
from kit.tools import require_tool

pytestmark = [pytest.mark.java, pytest.mark.timeout(240)]

SOURCE = Path(__file__).with_name("SecureClient.java")
COMMAND = "org.apache.kafka.tools.DelegationTokenCommand"
SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureBroker]:
    require_tool("java", "javac", "mvn")
    with secure_broker(
        tmp_path_factory.mktemp("secure"),
        delegation_token_secret_key="shared secret",
        authorizer_class_name=STANDARD_AUTHORIZER,
        super_users=f"User:{ALICE}",
    ) as running:
        running.add_scram_user("eve", PASSWORD)
        yield running


def properties(
    secure: SecureBroker, path: Path, name: str, password: str, options: str = ""
) -> str:
    login = f'{SCRAM_MODULE} required username="{name}" password="{password}"{options};'
    lines = {
        "bootstrap.servers": secure.address("SASL_SSL"),
        "security.protocol": "SASL_SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(secure.authority.ca_file),
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.jaas.config": login,
    }
    path.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
    return str(path)


@pytest.mark.parametrize("version", [KAFKA_4, KAFKA_3])
def test_the_command_makes_renews_describes_and_ends_a_token(secure, tmp_path, version):
    alice = properties(secure, tmp_path / "alice.properties", ALICE, PASSWORD)
    eve = properties(secure, tmp_path / "eve.properties", "eve", PASSWORD)

    def command(config: str, *arguments: str) -> str:
        at = ("--bootstrap-server", secure.address("SASL_SSL"), "--command-config", config)
        return kafka_tool(COMMAND, *at, *arguments, version=version)

    made = command(
        alice, "--create", "--max-life-time-period", "-1", "--renewer-principal", "User:bob"
    )
    found = re.search(
        r"^([\w-]{22})\s+(\S+==)\s+User:alice\s+User:alice\s+\[User:bob\]", made, re.M
    )
    assert found is not None, made
    token_id, hmac = found.groups()
    bearer = properties(secure, tmp_path / "bearer.properties", token_id, hmac, ' tokenauth="true"')
    libraries = jars(f"org.apache.kafka:kafka-clients:{version}", "org.slf4j:slf4j-nop:1.7.36")
    assert run_java(SOURCE, libraries, bearer, timeout_s=100) == "ok\n"
    described = command(alice, "--describe", "--owner-principal", "User:alice")
    assert token_id in described
    assert token_id not in command(eve, "--describe", "--owner-principal", "User:alice")
    assert "Completed renew operation" in command(
        alice, "--renew", "--renew-time-period", "-1", "--hmac", hmac
    )
    with pytest.raises(AssertionError, match="DelegationTokenOwnerMismatchException"):
        command(eve, "--renew", "--renew-time-period", "-1", "--hmac", hmac)
    assert "Completed expire operation" in command(
        alice, "--expire", "--expiry-time-period", "-1", "--hmac", hmac
    )
    outcome = run_java(SOURCE, libraries, bearer, timeout_s=100)
    assert outcome.startswith("SaslAuthenticationException: Authentication failed during")
