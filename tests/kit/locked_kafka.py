"""Apache Kafka 4.3.0 with an authorizer: clients are anonymous, the test is a super user."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from floodmark.client.admin.acls import creation_request
from floodmark.security.acls import Acl
from floodmark.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from floodmark.wire.messages.describe_acls import DescribeAclsRequest
from floodmark.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from floodmark.wire.messages.sasl_handshake import SaslHandshakeRequest
from fuzz_kit.raw_client import RawClient
from kit.apache_kafka import prepare_kraft
from kit.probe import broker_answers, listens
from kit.process import ServerProcess, free_port
from kit.waiting import wait_for

USERS_JAAS = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required "
    'username="admin" password="secret" user_admin="secret" user_mallory="secret";'
)
TOKEN_KEY = {"delegation.token.secret.key": "the same on all brokers"}
_ANY = 1


@contextmanager
def locked_kafka(folder: Path) -> Iterator[tuple[str, str]]:
    """The addresses for anonymous clients and for super users, who log in (`log_in`)."""
    port, internal, controller = free_port(), free_port(), free_port()
    served = f"PLAINTEXT://127.0.0.1:{port},INTERNAL://127.0.0.1:{internal}"
    command, _ = prepare_kraft(
        folder,
        {
            "listeners": f"{served},CONTROLLER://127.0.0.1:{controller}",
            "advertised.listeners": served,
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:admin",
            **TOKEN_KEY,
            "inter.broker.listener.name": "INTERNAL",
            "sasl.enabled.mechanisms": "PLAIN",
            "sasl.mechanism.inter.broker.protocol": "PLAIN",
            "sasl.mechanism.controller.protocol": "PLAIN",
            "listener.name.internal.plain.sasl.jaas.config": USERS_JAAS,
            "listener.name.controller.plain.sasl.jaas.config": USERS_JAAS,
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,INTERNAL:SASL_PLAINTEXT,"
            "CONTROLLER:SASL_PLAINTEXT",
        },
        heap="512m",
    )
    with ServerProcess(command, folder / "kafka.out") as process:
        # The listeners open one after the other.
        process.wait_until(lambda: broker_answers(port) and listens(internal))
        yield f"127.0.0.1:{port}", f"127.0.0.1:{internal}"


def log_in(client: RawClient, name: str = "admin") -> None:
    """As the super user, or as another one of `USERS_JAAS`."""
    token = f"\0{name}\0secret".encode()
    assert client.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1).error_code == 0
    assert client.ask(SaslAuthenticateRequest(auth_bytes=token), 2).error_code == 0


def set_acls(admin: RawClient, acls: Sequence[Acl]) -> None:
    """These and no others, as a super user of a Kafka."""
    everything: dict[str, Any] = {"resource_type_filter": _ANY, "pattern_type_filter": _ANY}
    everything |= {"operation": _ANY, "permission_type": _ANY}
    nothing: dict[str, Any] = dict.fromkeys(
        ["resource_name_filter", "principal_filter", "host_filter"]
    )
    deletion = DeleteAclsFilter(**everything, **nothing)
    admin.ask(DeleteAclsRequest(filters=[deletion]), 3)
    created = admin.ask(creation_request(acls), 3)
    assert {result.error_code for result in created.results} <= {0}
    wanted = {(p.kind, p.name, r.operation, r.permission) for p, r in acls}
    describe = DescribeAclsRequest(**everything, **nothing)

    def known() -> set[tuple[int, str, int, int]]:
        answer = admin.ask(describe, 3)
        return {
            (one.resource_type, one.resource_name, rule.operation, rule.permission_type)
            for one in answer.resources
            for rule in one.acls
        }

    # The controller answers before its broker has heard of it.
    wait_for(lambda: known() == wanted)
