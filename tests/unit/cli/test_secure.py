"""`floodmark up --secure`, and `floodmark user` against such a broker."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from floodmark.cli.commands.up_secure import FOLDER, secure_properties
from floodmark.cli.main import run
from floodmark.observability.collecting import collect
from floodmark.observability.sources import Sources
from floodmark.testing.broker_thread import Broker
from kit.secure_broker import secure_broker
from kit.waiting import wait_for

from .conftest import Cli


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    folder = tmp_path_factory.mktemp("data")
    properties = secure_properties(folder / FOLDER, "127.0.0.1", 0)
    with Broker(folder, properties) as running:
        yield running


@pytest.fixture
def admin(broker: Broker) -> list[str]:
    folder = Path(broker.broker.config.log_dirs[0]) / FOLDER
    return ["--command-config", str(folder / "client.properties")]


def test_the_files_let_their_owner_in_and_nobody_else_read_them(cli: Cli, broker, admin):
    assert cli("topic", "create", "t", *admin).code == 0
    assert cli("produce", "t", *admin, stdin=b"hello\n").code == 0
    assert cli("consume", "t", "--last", "1", *admin).out == "hello\n"
    assert (
        cli("cat", "-L", "-F", admin[1].replace("client.properties", "librdkafka.conf")).code == 0
    )
    folder = Path(admin[1]).parent
    assert {path.stat().st_mode & 0o077 for path in [folder, *folder.iterdir()]} == {0}


def test_files_are_made_once(broker, tmp_path):
    folder = Path(broker.broker.config.log_dirs[0])
    before = {path: path.read_bytes() for path in (folder / FOLDER).iterdir()}
    secure_properties(folder / FOLDER, "127.0.0.1", 0)
    assert {path: path.read_bytes() for path in (folder / FOLDER).iterdir()} == before


def test_users_are_set_described_and_deleted(cli: Cli, admin, tmp_path):
    assert "alice can authenticate with SCRAM-SHA-512" in (
        cli("user", "set", "alice", *admin, stdin=b"alice secret\n").out
    )
    text = "SCRAM-SHA-256=[iterations=8192,password=p,w=]"
    assert cli("user", "set", "--entity-name", "bob", "--add-config", text, *admin).code == 0
    described = cli("user", "describe", *admin).out
    assert described.split()[3:] == [
        "alice",
        "SCRAM-SHA-512",
        "4096",
        "bob",
        "SCRAM-SHA-256",
        "8192",
    ]
    ca = Path(admin[1]).with_name("ca.pem")
    properties = tmp_path / "bob.properties"
    properties.write_text(
        "security.protocol=SASL_SSL\nsasl.mechanism=SCRAM-SHA-256\nsasl.username=bob\n"
        f"sasl.password=p,w=\nssl.ca.location={ca}\n"
    )
    assert cli("topic", "list", "--command-config", str(properties)).code == 0
    assert cli("user", "delete", "bob", *admin).code == 0
    assert "does not exist: bob" in cli("user", "describe", "bob", *admin).err
    refused = cli("topic", "list", "--command-config", str(properties))
    assert refused.code == 1 and "invalid credentials" in refused.err


@pytest.mark.parametrize(
    "arguments",
    [
        ["set"],
        ["set", "x", "--add-config", "SCRAM-SHA-1=[password=x]"],
        ["set", "x", "--add-config", "SCRAM-SHA-256=[iterations=8192]"],
        ["set", "x"],
        ["delete"],
    ],
)
def test_what_is_not_said_is_asked_for(cli: Cli, admin, arguments):
    assert cli("user", *arguments, *admin).code == 2


@pytest.mark.parametrize(
    "options", [["--secure", "--set", "listeners=PLAINTEXT://127.0.0.1:0"], ["--security-dir", "x"]]
)
def test_what_contradicts_secure_is_refused(options, tmp_path, capsys):
    assert run(["up", "--data-dir", str(tmp_path), *options]) == 1
    assert "--secure" in capsys.readouterr().err


@contextmanager
def running(folder: Path, *options: str) -> Iterator[str]:
    """`floodmark up --secure` in a process of its own: what it has said once it serves."""
    command = [str(Path(sys.executable).with_name("floodmark")), "up", "--secure", *options]
    command += ["--port", "0", "--data-dir", str(folder / "data")]
    out = folder / "out"
    with out.open("w") as file:
        process = subprocess.Popen(command, stdout=file, stderr=file)
        try:
            wait_for(lambda: "stop: Ctrl-C" in out.read_text(), timeout_s=60)
            yield out.read_text()
        finally:
            process.terminate()
            process.wait(60)


@pytest.mark.timeout(120)
@pytest.mark.parametrize("options", [[], ["--brokers", "2"]])
def test_secure_brokers_say_how_to_reach_them_and_no_secret(tmp_path, options):
    with running(tmp_path, *options) as text:
        assert "client.properties" in text and "kcat -F" in text
    for secret in ("admin.password", "token.key"):
        assert (tmp_path / "data" / FOLDER / secret).read_text().strip() not in text


@pytest.mark.timeout(120)
def test_a_secure_cluster_shares_an_authority_and_replicates_what_is_produced(tmp_path, cli: Cli):
    folder = tmp_path / "data" / FOLDER
    with running(tmp_path, "--brokers", "3") as text:
        (servers,) = re.findall(r"3 brokers listens on (\S+),", text)
        at = ["-b", servers, "--command-config", str(folder / "client.properties")]
        assert cli("topic", "create", "t", "-r", "3", *at).code == 0
        assert cli("produce", "t", "-X", "acks=all", *at, stdin=b"hello\n").code == 0
        assert cli("consume", "t", "--last", "1", *at).out == "hello\n"
        described = json.loads(cli("topic", "describe", "t", "-o", "json", *at).out)
        assert sorted(described[0]["partitions"][0]["isr"]) == [1, 2, 3]
        assert "WARNING" not in (tmp_path / "out").read_text()
    names = sorted(path.name for path in folder.glob("*.pem"))
    assert names == ["broker-1.pem", "broker-2.pem", "broker-3.pem", "ca.pem"]
    assert {path.stat().st_mode & 0o077 for path in [folder, *folder.iterdir()]} == {0}


def test_the_days_to_expiry_are_a_metric(tmp_path):
    with secure_broker(tmp_path) as secure:
        readings = secure.broker.call(collect(Sources(secure.broker.broker)))
    days = dict(readings.values["floodmark_network_certificateexpirydays"])
    assert days.keys() == {("SSL",), ("SASL_SSL",)}
    assert all(value > 30 for value in days.values())
