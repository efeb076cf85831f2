"""Apache Kafka's AclCommand and ConfigCommand work on a broker with an authorizer and quotas."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from floodmark.security.acls import AclFilter
from floodmark.security.resources import Operation, ResourceKind
from floodmark.testing.broker_thread import BrokerThread
from kit.acls import LOCKED, acl, give
from kit.jars import KAFKA_3, KAFKA_4
from kit.kafka_tools import kafka_tool
from kit.tools import require_tool

pytestmark = [pytest.mark.java, pytest.mark.timeout(240)]

_ACLS = {KAFKA_3: "kafka.admin.AclCommand", KAFKA_4: "org.apache.kafka.tools.AclCommand"}
_CONFIGS = "kafka.admin.ConfigCommand"
ADMIN = [
    acl(operation, ResourceKind.CLUSTER)
    for operation in (Operation.ALTER, Operation.ALTER_CONFIGS, Operation.DESCRIBE_CONFIGS)
]


@pytest.fixture(autouse=True)
def _tools() -> None:
    require_tool("java", "mvn")


@pytest.fixture
def locked(tmp_path: Path) -> Iterator[BrokerThread]:
    with BrokerThread(tmp_path, LOCKED) as broker:
        give(broker, ADMIN)
        yield broker


def tool(broker: BrokerThread, version: str, name: str, *arguments: str) -> str:
    at = ("--bootstrap-server", broker.bootstrap_servers)
    return kafka_tool(name, *at, *arguments, version=version)


@pytest.mark.parametrize("version", [KAFKA_4, KAFKA_3])
def test_acl_command_adds_lists_and_removes(locked: BrokerThread, version: str) -> None:
    command = _ACLS[version]
    producer = ["--allow-principal", "User:alice", "--producer", "--topic", "orders"]
    tool(locked, version, command, "--add", *producer)
    prefixed = ["--resource-pattern-type", "prefixed", "--topic", "ord", "--operation", "Read"]
    tool(locked, version, command, "--add", "--deny-principal", "User:bob", *prefixed)
    listed = tool(
        locked, version, command, "--list", "--topic", "orders", "--resource-pattern-type", "match"
    )
    for expected in (
        "principal=User:alice, host=*, operation=WRITE, permissionType=ALLOW",
        "principal=User:alice, host=*, operation=DESCRIBE, permissionType=ALLOW",
        "principal=User:alice, host=*, operation=CREATE, permissionType=ALLOW",
        "principal=User:bob, host=*, operation=READ, permissionType=DENY",
        "name=ord, patternType=PREFIXED",
    ):
        assert expected in listed
    tool(locked, version, command, "--remove", "--force", "--topic", "orders")
    tool(locked, version, command, "--remove", "--force", *prefixed[:4])
    left = AclFilter(ResourceKind.TOPIC).find(locked.broker.metadata.image.acls)
    assert list(left) == []


@pytest.mark.parametrize("version", [KAFKA_4, KAFKA_3])
def test_config_command_alters_and_describes_quotas(locked: BrokerThread, version: str) -> None:
    whose = ["--entity-type", "users", "--entity-name", "al ice", "--entity-type", "clients"]
    whose += ["--entity-default"]
    rates = "producer_byte_rate=1024,request_percentage=12.5"
    tool(locked, version, _CONFIGS, "--alter", *whose, "--add-config", rates)
    described = tool(locked, version, _CONFIGS, "--describe", *whose)
    assert "producer_byte_rate=1024.0" in described
    assert "request_percentage=12.5" in described
    assert "user-principal 'al ice'" in described
    tool(locked, version, _CONFIGS, "--alter", *whose, "--delete-config", "request_percentage")
    assert "request_percentage" not in tool(locked, version, _CONFIGS, "--describe", *whose)
    address = ["--entity-type", "ips", "--entity-name", "10.0.0.1"]
    tool(
        locked, version, _CONFIGS, "--alter", *address, "--add-config", "connection_creation_rate=5"
    )
    assert "connection_creation_rate=5.0" in tool(locked, version, _CONFIGS, "--describe", *address)
