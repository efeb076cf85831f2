"""`floodmark token`: what it prints, and that a token it made lets a client in."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from floodmark.cli.commands.token import _time
from floodmark.cli.commands.up_secure import FOLDER, secure_properties
from floodmark.testing.broker_thread import Broker

from .conftest import Cli


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    folder = tmp_path_factory.mktemp("data")
    properties = secure_properties(folder / FOLDER, "127.0.0.1", 0)
    with Broker(folder, {**properties, "delegation.token.secret.key": "secret"}) as running:
        yield running


@pytest.fixture
def admin(broker: Broker) -> list[str]:
    folder = Path(broker.broker.config.log_dirs[0]) / FOLDER
    return ["--command-config", str(folder / "client.properties")]


def test_a_token_is_made_used_renewed_described_and_ended(cli: Cli, admin, tmp_path):
    done = cli("token", "create", "--renewer-principal", "User:ops", "--json", *admin)
    assert done.code == 0, done.err
    token = json.loads(done.out)
    assert (token["owner"], token["renewers"]) == ("User:admin", ["User:ops"])
    bearer = tmp_path / "bearer.properties"
    lines = Path(admin[1]).read_text().splitlines()
    kept = [line for line in lines if not line.startswith("sasl.")]
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    login = f'username="{token["token_id"]}" password="{token["hmac"]}" tokenauth="true"'
    kept += ["sasl.mechanism=SCRAM-SHA-512", f"sasl.jaas.config={module} required {login};"]
    bearer.write_text("\n".join(kept))
    assert cli("topic", "list", "--command-config", str(bearer)).code == 0
    refused = cli("token", "create", "--command-config", str(bearer))
    assert refused.code != 0
    assert "DELEGATION_TOKEN_REQUEST_NOT_ALLOWED" in refused.err
    renewed = cli("token", "renew", "--hmac", token["hmac"], "--renew-time-period", "5000", *admin)
    assert renewed.out.startswith("the token is valid until 20")
    table = cli("token", "describe", *admin).out.splitlines()
    assert table[0].split() == [
        "TOKENID", "HMAC", "OWNER", "REQUESTER", "RENEWERS", "ISSUED", "EXPIRES", "MAX"
    ]  # fmt: skip
    assert table[1].split()[:5] == [
        token["token_id"], token["hmac"], "User:admin", "User:admin", "User:ops"
    ]  # fmt: skip
    ended = cli("token", "expire", "--hmac", token["hmac"], "--expiry-time-period", "-1", *admin)
    assert ended.code == 0, ended.err
    assert json.loads(cli("token", "describe", "-o", "json", *admin).out) == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("create", "--owner-principal", "alice"), "not of the form User:alice"),
        (("create", "--owner-principal", "User:a", "--owner-principal", "User:b"), "one owner"),
        (("renew", "--hmac", "%%"), "not base64"),
        (("expire",), "--hmac"),
    ],
)
def test_what_cannot_be_meant_is_refused(cli: Cli, admin, arguments, words):
    done = cli("token", *arguments, *admin)
    assert done.code == 2
    assert words in done.err


def test_a_secret_that_nobody_made_is_not_found(cli: Cli, admin):
    done = cli("token", "renew", "--hmac", "AAAA", *admin)
    assert done.code == 1
    assert "DELEGATION_TOKEN_NOT_FOUND" in done.err


def test_a_token_that_never_ends_has_a_date():
    assert _time(2**63 - 1) == "9999-12-31T23:59:59+00:00"
