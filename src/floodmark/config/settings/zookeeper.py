"""Settings of ZooKeeper, for clusters across machines."""

from __future__ import annotations

from floodmark.config.setting import HIGH, LOW, MEDIUM, READ_ONLY, Setting
from floodmark.config.validators import ZooKeeperServers, at_least
from floodmark.config.values import ValueType

BOOLEAN, INT, STRING = ValueType.BOOLEAN, ValueType.INT, ValueType.STRING
LIST, PASSWORD = ValueType.LIST, ValueType.PASSWORD

ZOOKEEPER_SETTINGS = (
    Setting(
        "zookeeper.connect",
        STRING,
        None,
        HIGH,
        "The ZooKeeper servers of a cluster of several brokers, as host:port,host:port/path.",
        ZooKeeperServers(),
    ),
    Setting(
        "zookeeper.session.timeout.ms",
        INT,
        18000,
        HIGH,
        "How long without contact until ZooKeeper considers this broker dead.",
    ),
    Setting(
        "zookeeper.connection.timeout.ms",
        INT,
        None,
        HIGH,
        "How long to wait for ZooKeeper at the start; the session timeout when not set.",
    ),
    Setting(
        "zookeeper.set.acl",
        BOOLEAN,
        False,
        HIGH,
        "Whether the nodes that this broker creates are protected by access lists.",
    ),
    Setting(
        "zookeeper.ssl.client.enable",
        BOOLEAN,
        False,
        MEDIUM,
        "Whether to talk to ZooKeeper over TLS.",
    ),
    Setting(
        "zookeeper.ssl.keystore.location",
        STRING,
        None,
        MEDIUM,
        "The file with the key and certificate that this broker shows to ZooKeeper.",
    ),
    Setting(
        "zookeeper.ssl.keystore.password",
        PASSWORD,
        None,
        MEDIUM,
        "The password of that file and of the key in it.",
    ),
    Setting(
        "zookeeper.ssl.keystore.type",
        STRING,
        None,
        MEDIUM,
        "PEM or PKCS12; by the end of the file's name when not set.",
    ),
    Setting(
        "zookeeper.ssl.truststore.location",
        STRING,
        None,
        MEDIUM,
        "The file with the certificates by which ZooKeeper is trusted.",
    ),
    Setting(
        "zookeeper.ssl.truststore.password",
        PASSWORD,
        None,
        MEDIUM,
        "The password of that file.",
    ),
    Setting(
        "zookeeper.ssl.truststore.type",
        STRING,
        None,
        MEDIUM,
        "PEM or PKCS12; by the end of the file's name when not set.",
    ),
    Setting(
        "zookeeper.ssl.protocol",
        STRING,
        "TLSv1.2",
        LOW,
        "The TLS version if zookeeper.ssl.enabled.protocols is empty. Unset: 1.2 and 1.3.",
    ),
    Setting(
        "zookeeper.ssl.enabled.protocols",
        LIST,
        (),
        LOW,
        "The TLS versions that ZooKeeper may choose from.",
    ),
    Setting(
        "zookeeper.ssl.cipher.suites",
        LIST,
        (),
        LOW,
        "The cipher suites that ZooKeeper may choose from.",
    ),
    Setting(
        "zookeeper.ssl.endpoint.identification.algorithm",
        STRING,
        "HTTPS",
        LOW,
        "How ZooKeeper's name is checked against its certificate; empty for not at all.",
    ),
    Setting(
        "zookeeper.ssl.crl.enable",
        BOOLEAN,
        False,
        LOW,
        "Whether lists of revoked certificates are asked; not served.",
    ),
    Setting(
        "zookeeper.ssl.ocsp.enable",
        BOOLEAN,
        False,
        LOW,
        "Whether OCSP is asked for revoked certificates; not served.",
    ),
    Setting(
        "zookeeper.clientCnxnSocket",
        STRING,
        None,
        MEDIUM,
        "The Java class of the connection to ZooKeeper; Kafka needs it for TLS, we do not.",
    ),
    Setting(
        "floodmark.zookeeper.digest.username",
        STRING,
        None,
        MEDIUM,
        "The name by which brokers authenticate with ZooKeeper's digest scheme.",
    ),
    Setting(
        "floodmark.zookeeper.digest.password",
        PASSWORD,
        None,
        MEDIUM,
        "The password to that name.",
    ),
    Setting(
        "zookeeper.max.in.flight.requests",
        INT,
        10,
        HIGH,
        "The maximum number of requests in flight to ZooKeeper.",
        at_least(1),
    ),
    Setting(
        "broker.id.generation.enable",
        BOOLEAN,
        True,
        MEDIUM,
        "Whether a broker without an id gets one from the cluster.",
    ),
    Setting(
        "reserved.broker.max.id",
        INT,
        1000,
        MEDIUM,
        "The highest broker id that users may assign; generated ids are higher.",
        at_least(0),
        READ_ONLY,
    ),
)
