"""TLS and credentials for ZooKeeper, from the broker's settings. Used by zookeeper_member.py."""

from __future__ import annotations

from floodmark.config.broker_config import BrokerConfig
from floodmark.config.errors import ConfigError
from floodmark.security.errors import SecurityError
from floodmark.security.tls_context import client_context
from floodmark.security.tls_settings import JKS, PEM, PKCS12, StoreSettings, TlsSettings
from floodmark.zookeeper.security import ZooKeeperSecurity

_TYPES = {".pem": PEM, ".p12": PKCS12, ".pfx": PKCS12}


def zookeeper_security(config: BrokerConfig) -> ZooKeeperSecurity:
    """Raises ConfigError if keys or certificates are unusable."""
    username = config.get_optional_str("floodmark.zookeeper.digest.username")
    password = config.get_optional_str("floodmark.zookeeper.digest.password")
    tls = None
    if config.get_bool("zookeeper.ssl.client.enable"):
        try:
            tls = client_context(_tls_settings(config))
        except SecurityError as problem:
            raise ConfigError(
                f"TLS to ZooKeeper by zookeeper.ssl.*: {problem}",
                name="zookeeper.ssl.client.enable",
                hint=problem.hint or None,
            ) from problem
    return ZooKeeperSecurity(
        tls,
        f"{username}:{password}" if username else None,
        config.get_bool("zookeeper.set.acl"),
    )


def _tls_settings(config: BrokerConfig) -> TlsSettings:
    protocol = config.static.get("zookeeper.ssl.protocol")
    # A ZooKeeper server accepts only TLS 1.2 or only 1.3 by default, depending on its release.
    offered = (protocol,) if protocol else ("TLSv1.2", "TLSv1.3")
    algorithm = config.get_str("zookeeper.ssl.endpoint.identification.algorithm")
    return TlsSettings(
        key_store=_store(config, "zookeeper.ssl.keystore"),
        trust_store=_store(config, "zookeeper.ssl.truststore"),
        enabled_protocols=config.get_list("zookeeper.ssl.enabled.protocols") or offered,
        cipher_suites=config.get_list("zookeeper.ssl.cipher.suites"),
        checks_host_name=bool(algorithm.strip()),
    )


def _store(config: BrokerConfig, prefix: str) -> StoreSettings:
    """Without a type, the file name's ending decides, as in ZooKeeper's client. A key has the
    password of its store."""
    location = config.get_optional_str(f"{prefix}.location")
    password = config.get_optional_str(f"{prefix}.password")
    kind = config.get_optional_str(f"{prefix}.type")
    if not kind and location:
        kind = next((kind for end, kind in _TYPES.items() if location.endswith(end)), JKS)
    return StoreSettings((kind or JKS).upper(), location, password, key_password=password)
