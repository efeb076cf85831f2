"""Settings of Kafka's KRaft mode.

This broker is its own controller and reads them only to start with an unchanged server.properties
of Apache Kafka 4.
"""

from __future__ import annotations

from floodmark.config.setting import HIGH, Setting
from floodmark.config.validators import ListOf
from floodmark.config.values import ValueType

LIST = ValueType.LIST

KRAFT_SETTINGS = (
    Setting(
        "process.roles",
        LIST,
        (),
        HIGH,
        "The roles of this process in KRaft mode. A process without the role broker is refused.",
        ListOf(("broker", "controller")),
    ),
    Setting(
        "controller.listener.names",
        LIST,
        (),
        HIGH,
        "The listeners of the KRaft controller. They are not opened.",
    ),
    Setting(
        "controller.quorum.bootstrap.servers",
        LIST,
        (),
        HIGH,
        "The addresses of the KRaft controllers. They are not used.",
    ),
    Setting(
        "controller.quorum.voters",
        LIST,
        (),
        HIGH,
        "The KRaft controllers as id@host:port. They are not used.",
    ),
)
