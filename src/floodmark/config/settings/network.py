"""Socket settings: listeners, limits, queues. Read by network/ and `config/listeners.py`."""

from __future__ import annotations

from floodmark.config.setting import CLUSTER_WIDE, HIGH, LOW, MEDIUM, Setting
from floodmark.config.validators import ListOf, OneOf, at_least
from floodmark.config.values import INT_MAX, ValueType

INT, LONG, STRING, LIST = ValueType.INT, ValueType.LONG, ValueType.STRING, ValueType.LIST

SECURITY_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
# Apache Kafka listens on all addresses. We do so only on request, because there is no
# authentication by default.
DEFAULT_LISTENERS = ("PLAINTEXT://127.0.0.1:9092",)

NETWORK_SETTINGS = (
    Setting(
        "listeners",
        LIST,
        DEFAULT_LISTENERS,
        HIGH,
        "The addresses to listen on, as NAME://host:port; an empty host means all addresses.",
        ListOf(allow_empty=False),
    ),
    Setting(
        "advertised.listeners",
        LIST,
        None,
        HIGH,
        "The addresses given to clients, if they differ from `listeners`, one for each listener "
        "name.",
    ),
    Setting(
        "listener.security.protocol.map",
        STRING,
        "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
        LOW,
        "The security protocol of each listener name, as NAME:PROTOCOL pairs.",
    ),
    Setting(
        "inter.broker.listener.name",
        STRING,
        None,
        MEDIUM,
        "The listener for connections between brokers; by default the one named like "
        "security.inter.broker.protocol.",
    ),
    Setting(
        "security.inter.broker.protocol",
        STRING,
        "PLAINTEXT",
        MEDIUM,
        "The security protocol between brokers when inter.broker.listener.name is not set.",
        OneOf(SECURITY_PROTOCOLS),
    ),
    Setting(
        "num.network.threads",
        INT,
        3,
        HIGH,
        "How many processors share the connections of a listener.",
        at_least(1),
        CLUSTER_WIDE,
    ),
    Setting(
        "queued.max.requests",
        INT,
        500,
        HIGH,
        "How many requests may wait for a handler before reading from sockets stops.",
        at_least(1),
    ),
    Setting(
        "queued.max.request.bytes",
        LONG,
        -1,
        MEDIUM,
        "How many bytes of requests may wait before reading from sockets stops; -1 for no limit.",
    ),
    Setting(
        "socket.request.max.bytes",
        INT,
        104857600,
        HIGH,
        "The maximum request size; a connection that announces a larger one is closed.",
        at_least(1),
    ),
    Setting(
        "socket.send.buffer.bytes",
        INT,
        102400,
        HIGH,
        "The kernel's send buffer of each connection; -1 leaves it to the operating system.",
    ),
    Setting(
        "socket.receive.buffer.bytes",
        INT,
        102400,
        HIGH,
        "The kernel's receive buffer of each connection; -1 leaves it to the operating system.",
    ),
    Setting(
        "socket.listen.backlog.size",
        INT,
        50,
        MEDIUM,
        "How many connections the kernel keeps waiting to be accepted, if more than 1024.",
        at_least(1),
    ),
    Setting(
        "max.connections",
        INT,
        INT_MAX,
        MEDIUM,
        "The maximum number of connections, over all clients.",
        at_least(0),
        CLUSTER_WIDE,
    ),
    Setting(
        "max.connections.per.ip",
        INT,
        INT_MAX,
        MEDIUM,
        "The maximum number of connections from one address; 0 only together with overrides.",
        at_least(0),
        CLUSTER_WIDE,
    ),
    Setting(
        "max.connections.per.ip.overrides",
        STRING,
        "",
        MEDIUM,
        "Limits for individual addresses or host names, as host:limit pairs.",
        None,
        CLUSTER_WIDE,
    ),
    Setting(
        "max.connection.creation.rate",
        INT,
        INT_MAX,
        MEDIUM,
        "The maximum number of new connections per second.",
        at_least(0),
        CLUSTER_WIDE,
    ),
    Setting(
        "connections.max.idle.ms",
        LONG,
        600000,
        MEDIUM,
        "How long a connection may be idle before it is closed.",
    ),
    Setting(
        "connection.failed.authentication.delay.ms",
        INT,
        100,
        LOW,
        "How long to delay closing a connection after failed authentication.",
        at_least(0),
    ),
    Setting(
        "socket.connection.setup.timeout.ms",
        LONG,
        10000,
        MEDIUM,
        "How long a first attempt to connect to another broker may take; later ones wait longer.",
    ),
    Setting(
        "socket.connection.setup.timeout.max.ms",
        LONG,
        30000,
        MEDIUM,
        "The maximum time for an attempt to connect to another broker.",
    ),
)
