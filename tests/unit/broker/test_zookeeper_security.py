"""ZooKeeper over TLS, and nodes that only the brokers may write; some only they may read."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError
from kazoo.security import OPEN_ACL_UNSAFE

from floodmark.apis.delegation_tokens import TokenWish
from floodmark.config.errors import ConfigError
from floodmark.controller.configs import ConfigAlteration, ConfigStep
from floodmark.controller.topics import NewTopic
from floodmark.controller.users import CredentialChange
from floodmark.metadata.image import ConfigResource
from floodmark.security.scram_credentials import ScramCredential
from floodmark.testing import Broker
from floodmark.wire.errors import ErrorCode
from kit.certificates import Authority, as_pkcs12, encrypted
from kit.thread_cluster import Cluster
from kit.zookeeper import ZooKeeper

pytestmark = pytest.mark.timeout(120)

DIGEST = {
    "floodmark.zookeeper.digest.username": "brokers",
    "floodmark.zookeeper.digest.password": "their secret",
    "zookeeper.set.acl": "true",
    "delegation.token.secret.key": "key",
}


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def zookeeper(
    tmp_path_factory: pytest.TempPathFactory, authority: Authority
) -> Iterator[ZooKeeper]:
    folder = tmp_path_factory.mktemp("zookeeper")
    with ZooKeeper(folder, tls=(authority.server(), authority.ca_file)) as running:
        yield running


@pytest.fixture
def stranger(zookeeper: ZooKeeper) -> Iterator[KazooClient]:
    client = KazooClient(zookeeper.hosts)
    client.start(10)
    yield client
    client.stop()
    client.close()


def fill(broker: Broker) -> None:
    """A topic, a user, a token and a broker's settings."""
    controller = broker.broker.controller
    broker.call(controller.create_topics([NewTopic("t", 1, 1)]))
    credential = ScramCredential(b"salt", b"stored", b"server", 4096)
    broker.call(controller.alter_scram_credentials([CredentialChange("alice", 1, credential)]))
    wish = TokenWish("User:alice", "User:alice", (), -1)
    broker.call(broker.broker.token_requests.create(wish))
    step = ConfigStep("log.retention.ms", 0, "1000000")
    resource = ConfigResource("broker", "1")
    (answer,) = broker.call(
        controller.incremental_alter_configs([ConfigAlteration(resource, [step])])
    )
    assert answer.error_code == 0


def paths_below(client: KazooClient, path: str) -> Iterator[str]:
    yield path
    try:
        names = client.get_children(path)
    except NoAuthError:
        return
    for name in names:
        yield from paths_below(client, f"{path}/{name}")


def assert_protected(stranger: KazooClient, root: str) -> None:
    """Nothing below can be written, and secrets cannot be read."""
    found = list(paths_below(stranger, root))
    assert {f"{root}/controller", f"{root}/brokers/ids/1", f"{root}/brokers/topics/t"} <= {*found}
    for path in found:
        if path == f"{root}/consumers":
            continue
        with pytest.raises(NoAuthError):
            stranger.set(path, b"mine")
        if f"{root}/brokers/ids/" not in path and not path.endswith("/controller"):
            with pytest.raises(NoAuthError):
                stranger.create(f"{path}/mine", b"")
        with pytest.raises(NoAuthError):
            stranger.set_acls(path, OPEN_ACL_UNSAFE)
    for secret in ("config/users", "config/brokers", "delegation_token/tokens"):
        with pytest.raises(NoAuthError):
            stranger.get_children(f"{root}/{secret}")
    for secret in ("config/users/alice", "config/brokers/1"):
        with pytest.raises(NoAuthError):
            stranger.get(f"{root}/{secret}")
    stranger.get(f"{root}/brokers/topics/t")


def test_digest_authentication_keeps_strangers_out(zookeeper, stranger, tmp_path):
    store = {"zookeeper.connect": f"{zookeeper.hosts}/digest", **DIGEST}
    with Broker(tmp_path, {**store, "node.id": 1}) as broker:
        fill(broker)
        assert_protected(stranger, "/digest")
    # The same password opens everything again.
    with Broker(tmp_path, {**store, "node.id": 1}) as broker:
        assert broker.broker.metadata.image.tokens
    wrong = {**store, "floodmark.zookeeper.digest.password": "a guess"}
    with pytest.raises(ConfigError, match="belong to another user"):
        Broker(tmp_path, {**wrong, "node.id": 1}).start()


def test_a_cluster_works_with_protected_nodes_and_over_a_lost_connection(
    zookeeper, stranger, tmp_path
):
    cluster = Cluster(tmp_path, {"zookeeper.connect": f"{zookeeper.hosts}/cluster", **DIGEST})
    try:
        zookeeper.stop()
        zookeeper.start()
        stranger.retry(stranger.get, "/cluster")
        cluster.wait_until_agreed()
        fill(cluster.brokers[cluster.controller])
        cluster.wait_until_agreed()
        assert_protected(stranger, "/cluster")
    finally:
        cluster.close()


def tls_settings(zookeeper: ZooKeeper, authority: Authority, chroot: str) -> dict[str, str]:
    return {
        "zookeeper.connect": f"127.0.0.1:{zookeeper.tls_port}/{chroot}",
        "zookeeper.ssl.client.enable": "true",
        "zookeeper.clientCnxnSocket": "org.apache.zookeeper.ClientCnxnSocketNetty",
        "zookeeper.ssl.truststore.location": str(authority.ca_file),
        "zookeeper.ssl.keystore.location": str(authority.client("broker")),
        "zookeeper.connection.timeout.ms": "4000",
        "delegation.token.secret.key": "key",
        "node.id": "1",
    }


@pytest.mark.parametrize("store", ["pem", "encrypted", "pkcs12"])
def test_a_certificate_is_enough_to_own_nodes(
    zookeeper, authority, stranger, tmp_path: Path, store: str
):
    settings = tls_settings(zookeeper, authority, store) | {"zookeeper.set.acl": "true"}
    pem = authority.client("broker")
    if store == "encrypted":
        settings["zookeeper.ssl.keystore.location"] = str(encrypted(pem))
        settings["zookeeper.ssl.keystore.password"] = "key-secret"
    if store == "pkcs12":
        settings["zookeeper.ssl.keystore.location"] = str(as_pkcs12(pem))
        settings["zookeeper.ssl.keystore.password"] = "store-secret"
    with Broker(tmp_path, settings) as broker:
        fill(broker)
        assert_protected(stranger, f"/{store}")
    with Broker(tmp_path, settings) as broker:
        assert "t" in broker.broker.metadata.image.topics


def test_a_zookeeper_of_another_authority_is_not_trusted(zookeeper, authority, tmp_path):
    other = Authority(tmp_path / "other")
    settings = tls_settings(zookeeper, authority, "other")
    settings["zookeeper.ssl.truststore.location"] = str(other.ca_file)
    with pytest.raises(ConfigError, match="no ZooKeeper answers"):
        Broker(tmp_path / "data", settings).start()


def test_a_store_that_cannot_be_read_keeps_the_broker_from_starting(zookeeper, authority, tmp_path):
    settings = tls_settings(zookeeper, authority, "unreadable")
    settings["zookeeper.ssl.truststore.location"] = str(tmp_path / "nothing.pem")
    with pytest.raises(ConfigError, match=r"TLS to ZooKeeper by zookeeper.ssl.\*"):
        Broker(tmp_path / "data", settings).start()


def altered(broker: Broker, name: str, value: str | None) -> tuple[int, str | None]:
    controller = broker.broker.controller
    step = ConfigStep(name, 0 if value is not None else 1, value)
    alteration = ConfigAlteration(ConfigResource("broker", "1"), [step])
    (answer,) = broker.call(controller.incremental_alter_configs([alteration]))
    return answer.error_code, answer.message


def test_passwords_go_to_zookeeper_only_where_nobody_else_reads_them(zookeeper, tmp_path):
    name = "listener.name.ssl.ssl.keystore.password"
    open_to_all = {"zookeeper.connect": f"{zookeeper.hosts}/open", "node.id": "1"}
    with Broker(tmp_path / "open", open_to_all) as broker:
        error_code, message = altered(broker, name, "a secret")
        assert error_code == ErrorCode.INVALID_REQUEST
        assert "zookeeper.set.acl" in (message or "") and "a secret" not in (message or "")
        assert altered(broker, "log.retention.ms", "99999999") == (0, None)
        assert altered(broker, name, None) == (0, None)
    closed = {"zookeeper.connect": f"{zookeeper.hosts}/closed", "node.id": "1", **DIGEST}
    with Broker(tmp_path / "closed", closed) as broker:
        assert altered(broker, name, "a secret") == (0, None)
