"""All settings by name, collected from the files of their areas.

Read by config/ itself and by docs.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from floodmark.config.setting import Setting, TopicSetting
from floodmark.config.settings.authorization import AUTHORIZATION_SETTINGS
from floodmark.config.settings.coordinators import GROUP_SETTINGS, TRANSACTION_SETTINGS
from floodmark.config.settings.kraft import KRAFT_SETTINGS
from floodmark.config.settings.log import CLEANER_SETTINGS, LOG_SETTINGS
from floodmark.config.settings.network import NETWORK_SETTINGS
from floodmark.config.settings.replication import REPLICATION_SETTINGS
from floodmark.config.settings.sasl import SASL_SETTINGS
from floodmark.config.settings.server import SERVER_SETTINGS
from floodmark.config.settings.tls import TLS_SETTINGS
from floodmark.config.settings.topics import TOPIC_SETTINGS
from floodmark.config.settings.zookeeper import ZOOKEEPER_SETTINGS

_BROKER_AREAS = (
    SERVER_SETTINGS,
    NETWORK_SETTINGS,
    REPLICATION_SETTINGS,
    KRAFT_SETTINGS,
    LOG_SETTINGS,
    CLEANER_SETTINGS,
    GROUP_SETTINGS,
    TRANSACTION_SETTINGS,
    TLS_SETTINGS,
    SASL_SETTINGS,
    AUTHORIZATION_SETTINGS,
    ZOOKEEPER_SETTINGS,
)

BROKER_SETTINGS_BY_NAME: Mapping[str, Setting] = MappingProxyType(
    {setting.name: setting for area in _BROKER_AREAS for setting in area}
)
TOPIC_SETTINGS_BY_NAME: Mapping[str, TopicSetting] = MappingProxyType(
    {setting.name: setting for setting in TOPIC_SETTINGS}
)
