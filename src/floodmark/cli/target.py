"""Resolves a command's cluster and client settings.

Precedence: command-line options, environment, profile, default. A profile named on the command
line counts as an option.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import click
from click.core import ParameterSource

from floodmark.cli.errors import CliError
from floodmark.cli.profiles import current_profile, read_profile, read_properties
from floodmark.client.settings import (
    ClientSettings,
    ConsumerSettings,
    ProducerSettings,
    SettingsError,
)
from floodmark.config.suggestions import closest

S = TypeVar("S", bound=ClientSettings)

BOOTSTRAP = "bootstrap.servers"
# Settings whose librdkafka (and kcat) name differs from the Java clients' name.
_LIBRDKAFKA_NAMES = {
    "request.required.acks": "acks",
    "compression.codec": "compression.type",
    "queue.buffering.max.ms": "linger.ms",
    "metadata.broker.list": BOOTSTRAP,
    "message.timeout.ms": "delivery.timeout.ms",
    "fetch.wait.max.ms": "fetch.max.wait.ms",
    "fetch.message.max.bytes": "max.partition.fetch.bytes",
}
# Values that request this client's only behaviour.
_ALREADY_SO = {"security.protocol": "plaintext", "group.protocol": "classic"}
_MOOT_IN_PLAINTEXT = ("ssl.", "sasl.")
_SECURITY = ("security.", "ssl.", "sasl.", "enable.ssl.")
_CLIENTS = (ClientSettings, ProducerSettings, ConsumerSettings)


@dataclass(frozen=True, slots=True)
class Target:
    """The connection settings that `client_options` passes to a command."""

    # The --bootstrap-server option, if given.
    explicit: str | None
    otherwise: str
    # Settings from the profile and the --command-config file, for every kind of client.
    shared: Mapping[str, str] = field(default_factory=dict)

    def resolve(
        self, settings_class: type[S], given: Mapping[str, str] | None = None
    ) -> tuple[str, S]:
        """The bootstrap servers and settings. `given` holds the command line's name=value pairs."""
        own = _in_javas_names(given or {})
        named = own.pop(BOOTSTRAP, None)
        settings = client_settings(settings_class, self.shared, own)
        return self.explicit or named or self.otherwise, settings

    def sharing(self, given: Mapping[str, str]) -> Target:
        """A copy with name=value pairs that apply to several kinds of clients."""
        own = _in_javas_names(given)
        otherwise = own.pop(BOOTSTRAP, self.otherwise)
        return Target(self.explicit, otherwise, {**self.shared, **own})


def find_target(bootstrap_server: str, profile: str | None, command_config: str | None) -> Target:
    """Builds the target from the options that `options.client_options` adds."""
    ctx = click.get_current_context()
    name = current_profile() if profile is None else profile
    of_profile = _in_javas_names(read_profile(name)) if name else {}
    of_file: dict[str, str] = {}
    if command_config is not None:
        of_file = _in_javas_names(read_properties(Path(command_config)))
    in_file, in_profile = of_file.pop(BOOTSTRAP, None), of_profile.pop(BOOTSTRAP, None)
    source = ctx.get_parameter_source("bootstrap_server")
    profile_source = ctx.get_parameter_source("profile")
    by_weight = (
        in_file,
        in_profile if profile_source is ParameterSource.COMMANDLINE else None,
        bootstrap_server if source is ParameterSource.ENVIRONMENT else None,
        in_profile,
    )
    return Target(
        bootstrap_server if source is ParameterSource.COMMANDLINE else None,
        next((found for found in by_weight if found), bootstrap_server),
        of_profile | of_file,
    )


def _in_javas_names(properties: Mapping[str, str]) -> dict[str, str]:
    return {_LIBRDKAFKA_NAMES.get(name, name): text for name, text in properties.items()}


def client_settings(
    settings_class: type[S], shared: Mapping[str, str], given: Mapping[str, str]
) -> S:
    """Builds client settings and refuses those this client cannot honour.

    Ignoring a setting could be unsafe: records meant for TLS would go out in plaintext. Shared
    settings for another kind of client are skipped.
    """
    kept = _without_what_is_so({**shared, **given})
    shared = {name: text for name, text in kept.items() if name not in given}
    given = {name: text for name, text in kept.items() if name in given}
    # Protocol, mechanism and passwords only make sense together, whatever their source.
    security = {name: text for name, text in kept.items() if name.startswith(_SECURITY)}
    try:
        nobodys = set.intersection(
            *(set(kind.from_properties({**shared, **security})[1]) for kind in _CLIENTS)
        )
        _, others = settings_class.from_properties({**shared, **security})
        mine = {name: text for name, text in shared.items() if name not in others}
        settings, unknown = settings_class.from_properties({**mine, **given})
    except SettingsError as error:
        raise CliError(
            "invalid client settings",
            why=str(error),
            hint="correct it in -X, --command-config or the profile",
        ) from error
    refused = sorted(nobodys.union(unknown))
    if refused:
        raise _refusal(settings_class, refused)
    return settings


def _without_what_is_so(properties: Mapping[str, str]) -> dict[str, str]:
    """Drops settings that ask for what this client does anyway.

    Kafka's clients ignore ssl.* and sasl.* under plaintext, so these are dropped there too.
    """
    so = {
        name for name, text in properties.items() if _ALREADY_SO.get(name) == text.strip().lower()
    }
    return {
        name: text
        for name, text in properties.items()
        if name not in so
        and not ("security.protocol" in so and name.startswith(_MOOT_IN_PLAINTEXT))
    }


def check_shared(properties: Mapping[str, str]) -> None:
    """Refuses a profile that no client could use."""
    shared = _in_javas_names(properties)
    shared.pop(BOOTSTRAP, None)
    for kind in _CLIENTS:
        client_settings(kind, shared, {})


def _refusal(settings_class: type[ClientSettings], names: list[str]) -> CliError:
    texts = [name + _explained(settings_class, name) for name in names]
    return CliError(
        "invalid client settings",
        why=f"this client does not support {', '.join(texts)}",
        hint="correct the names, or remove them from -X, --command-config or the profile",
    )


def _explained(settings_class: type[ClientSettings], name: str) -> str:
    for kind, noun in ((ProducerSettings, "a producer"), (ConsumerSettings, "a consumer")):
        if name in known_names(kind) and name not in known_names(settings_class):
            return f" (a setting of {noun})"
    meant = closest(name, known_names(settings_class))
    return "" if meant is None else f" (did you mean {meant}?)"


def known_names(settings_class: type[ClientSettings]) -> list[str]:
    fields = settings_class.__dataclass_fields__
    return [name.replace("_", ".") for name in fields]
