"""Keys and certificates of the TLS listeners, and how they change at runtime.

Created by `broker.broker`. Each acceptor asks its `TlsListener` for the newest context, so a change
applies to later connections. Keys change through dynamic settings (`listener.name.NAME.ssl.*`) and
when their files change.
"""

from __future__ import annotations

import logging
import ssl

from floodmark.clock import Clock
from floodmark.config.broker_config import BrokerConfig
from floodmark.config.errors import ConfigError
from floodmark.config.values import format_value
from floodmark.network.principal import ANONYMOUS, Principal
from floodmark.occurrences import Occurrences, repeated
from floodmark.patient_timer import PatientTimer
from floodmark.security.certificate import read_certificate
from floodmark.security.errors import AuthenticationFailed, SecurityError
from floodmark.security.principal_rules import Rule, parse_rules, principal_name
from floodmark.security.tls_context import ServerTls, file_marks, server_tls
from floodmark.security.tls_settings import TlsSettings, tls_settings

logger = logging.getLogger(__name__)

LOOK_INTERVAL_MS = 10_000
"""How often to check the files. Nobody replaces certificates more often."""

EXPIRY_WARNING_DAYS = 30
DAY_MS = 24 * 3600 * 1000


class TlsListener:
    """`network.tls_port.Encryption` of one listener."""

    def __init__(self, name: str, settings: TlsSettings, rules: list[Rule]) -> None:
        self.name = name
        self.settings = settings
        self._rules = rules
        self._marks = file_marks(settings)
        self._tls = server_tls(settings)
        self._failures = Occurrences()
        self.failed_handshakes = 0

    @property
    def context(self) -> ssl.SSLContext:
        return self._tls.context

    def days_left(self, now_ms: int) -> float:
        """Days until the certificate expires; negative once it has."""
        return (self._tls.certificate.not_after.timestamp() * 1000 - now_ms) / DAY_MS

    def principal_of(self, certificate: bytes | None) -> Principal:
        if not certificate:
            return ANONYMOUS
        try:
            return Principal(
                "User", principal_name(self._rules, read_certificate(certificate).subject)
            )
        except (AuthenticationFailed, ValueError) as problem:
            raise ConnectionError(str(problem)) from problem

    def handshake_failed(self, host: str, reason: str) -> None:
        self.failed_handshakes += 1
        times = self._failures.worth_telling(f"{host} {reason}")
        if times:
            logger.warning(
                "listener %s: the TLS handshake with %s failed%s: %s",
                self.name,
                host,
                repeated(times),
                reason,
            )

    def has_changed_files(self) -> bool:
        return file_marks(self.settings) != self._marks

    def check(self, settings: TlsSettings, config: BrokerConfig) -> None:
        """Raises SecurityError if `replace` could not use these."""
        if settings != self.settings:
            _check_replacement(config, self._tls, server_tls(settings))

    def replace(self, settings: TlsSettings, config: BrokerConfig) -> None:
        """Switches to other keys.

        Raises SecurityError and keeps the old ones if they are unusable.
        """
        marks = file_marks(settings)
        try:
            tls = server_tls(settings)
            _check_replacement(config, self._tls, tls)
        finally:
            # Tried once: retry only when the files change again.
            self._marks = marks
        self.settings, self._tls = settings, tls


class TlsListeners:
    def __init__(self, config: BrokerConfig, clock: Clock) -> None:
        """Raises ConfigError if a TLS listener's keys are unusable."""
        self._config = config
        self._clock = clock
        self._timer: PatientTimer | None = None
        self._warned_days: dict[str, int] = {}
        self.listeners: dict[str, TlsListener] = {}
        for listener in config.listeners:
            if listener.security_protocol in ("SSL", "SASL_SSL"):
                self.listeners[listener.name] = _make(config, listener.name)

    def of(self, name: str) -> TlsListener | None:
        return self.listeners.get(name)

    def start(self) -> None:
        if self.listeners:
            self._look(0)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def reconfigure(self, config: BrokerConfig) -> None:
        """Applies dynamic settings."""
        self._config = config
        for listener in self.listeners.values():
            settings = listener_settings(config, listener.name)
            if settings != listener.settings:
                self._replace(listener, settings)

    def why_unusable(self, config: BrokerConfig) -> str | None:
        """The reason why a listener cannot use these settings, or None."""
        for listener in self.listeners.values():
            try:
                listener.check(listener_settings(config, listener.name), config)
            except SecurityError as problem:
                return f"listener {listener.name}: {problem}. {problem.hint}".rstrip(" .") + "."
        return None

    def _look(self, _fired_ms: float) -> None:
        for listener in self.listeners.values():
            if listener.has_changed_files():
                self._replace(listener, listener.settings)
            self._warn_of_expiry(listener)
        self._timer = PatientTimer(LOOK_INTERVAL_MS, self._clock.monotonic_ms, self._look)

    def _replace(self, listener: TlsListener, settings: TlsSettings) -> None:
        try:
            listener.replace(settings, self._config)
        except SecurityError as problem:
            logger.error(
                "listener %s keeps its certificate, because the new one is unusable: %s. %s",
                listener.name,
                problem,
                problem.hint,
            )
        else:
            logger.info("listener %s has a new TLS certificate", listener.name)

    def _warn_of_expiry(self, listener: TlsListener) -> None:
        days = listener.days_left(self._clock.now_ms())
        if days > EXPIRY_WARNING_DAYS or self._warned_days.get(listener.name) == int(days):
            return
        self._warned_days[listener.name] = int(days)
        if days <= 0:
            logger.error("the TLS certificate of listener %s has expired", listener.name)
        else:
            logger.warning(
                "the TLS certificate of listener %s expires in %.1f days", listener.name, days
            )


def listener_settings(config: BrokerConfig, listener: str) -> TlsSettings:
    def text(name: str) -> str | None:
        return format_value(config.for_listener(listener, name))

    def names(name: str) -> tuple[str, ...]:
        value = config.for_listener(listener, name)
        return value if isinstance(value, tuple) else ()

    return tls_settings(text, names)


def _make(config: BrokerConfig, name: str) -> TlsListener:
    try:
        rules = parse_rules(str(config.for_listener(name, "ssl.principal.mapping.rules")))
        return TlsListener(name, listener_settings(config, name), rules)
    except SecurityError as problem:
        raise ConfigError(
            f"listener {name}: {problem}", name="listeners", hint=problem.hint or None
        ) from problem


def _check_replacement(config: BrokerConfig, old: ServerTls, new: ServerTls) -> None:
    """As in Kafka: a mistake must not make clients and brokers reject the certificate."""
    before, after = old.certificate, new.certificate
    if before.subject != after.subject and not config.get_bool("ssl.allow.dn.changes"):
        raise SecurityError(
            f"its subject is {after.subject} and not {before.subject}",
            "Set ssl.allow.dn.changes=true if that is intended",
        )
    lost = before.alternative_names - after.alternative_names
    if lost and not config.get_bool("ssl.allow.san.changes"):
        raise SecurityError(
            "it lacks some of the old certificate's subject alternative names",
            "Set ssl.allow.san.changes=true if that is intended",
        )
