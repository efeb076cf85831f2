"""Apache Kafka's tools log in with `--command-config` and administer users, quotas and ACLs."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kit.acls import STANDARD_AUTHORIZER
from kit.jars import KAFKA_3, KAFKA_4
from kit.kafka_tools import kafka_tool
from kit.secure_broker import SecureBroker, secure_broker
from kit.tools import require_tool

pytestmark = [pytest.mark.java, pytest.mark.timeout(240)]

ACLS = {KAFKA_3: "kafka.admin.AclCommand", KAFKA_4: "org.apache.kafka.tools.AclCommand"}
VERSIONS = {
    KAFKA_3: "kafka.admin.BrokerApiVersionsCommand",
    KAFKA_4: "org.apache.kafka.tools.BrokerApiVersionsCommand",
}
CONFIGS = "kafka.admin.ConfigCommand"
Tool = Callable[..., str]


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureBroker]:
    require_tool("java", "mvn")
    with secure_broker(
        tmp_path_factory.mktemp("locked"),
        authorizer_class_name=STANDARD_AUTHORIZER,
        super_users="User:admin",
    ) as running:
        yield running


@pytest.fixture(params=[KAFKA_4, KAFKA_3])
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def tool(locked: SecureBroker, version: str, tmp_path: Path) -> Tool:
    properties = {
        "security.protocol": "SASL_SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(locked.authority.ca_file),
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule required "
        'username="admin" password="admin-secret";',
    }
    path = tmp_path / "admin.properties"
    path.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))

    def run(name: str, *arguments: str) -> str:
        at = ("--bootstrap-server", locked.address("SASL_SSL"), "--command-config", str(path))
        return kafka_tool(name, *at, *arguments, version=version)

    return run


def test_config_command_makes_describes_and_deletes_scram_users(tool):
    user = ("--entity-type", "users", "--entity-name", "dora")
    tool(CONFIGS, "--alter", *user, "--add-config", "SCRAM-SHA-256=[password=dora-secret]")
    assert "SCRAM-SHA-256=iterations=4096" in tool(CONFIGS, "--describe", *user)
    tool(CONFIGS, "--alter", *user, "--delete-config", "SCRAM-SHA-256")
    assert "SCRAM" not in tool(CONFIGS, "--describe", *user)


def test_config_command_alters_and_describes_quotas(tool):
    user = ("--entity-type", "users", "--entity-name", "dora")
    tool(CONFIGS, "--alter", *user, "--add-config", "producer_byte_rate=1024")
    assert "producer_byte_rate=1024.0" in tool(CONFIGS, "--describe", *user)
    tool(CONFIGS, "--alter", *user, "--delete-config", "producer_byte_rate")
    assert "producer_byte_rate" not in tool(CONFIGS, "--describe", *user)


def test_broker_api_versions_command_asks_over_sasl(tool, version):
    told = tool(VERSIONS[version])
    assert "Produce(0)" in told and "SaslAuthenticate(36)" in told


def test_acl_command_adds_lists_and_removes(tool, version):
    rule = ("--allow-principal", "User:dora", "--operation", "Read", "--topic", f"t-{version}")
    tool(ACLS[version], "--add", *rule)
    topic = ("--topic", f"t-{version}")
    assert "principal=User:dora" in tool(ACLS[version], "--list", *topic)
    tool(ACLS[version], "--remove", "--force", *topic)
    assert "User:dora" not in tool(ACLS[version], "--list", *topic)
