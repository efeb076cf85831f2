"""Which cluster a command talks to, and the client settings that it takes along.

The order of weight: options of the command line, the environment, the profile, the default. A
profile that is named on the command line counts as an option.
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
# What librdkafka, and so kcat, calls by another name than Kafka's Java clients.
_LIBRDKAFKA_NAMES = {
    "request.required.acks": "acks",
    "compression.codec": "compression.type",
    "queue.buffering.max.ms": "linger.ms",
    "metadata.broker.list": BOOTSTRAP,
    "message.timeout.ms": "delivery.timeout.ms",
    "fetch.wait.max.ms": "fetch.max.wait.ms",
    "fetch.message.max.bytes": "max.partition.fetch.bytes",
}
# Values that ask for what this client does anyway.
_ALREADY_SO = {"security.protocol": "plaintext", "group.protocol": "classic"}
_MOOT_IN_PLAINTEXT = ("ssl.", "sasl.")
_SECURITY = ("security.", "ssl.", "sasl.", "enable.ssl.")
_CLIENTS = (ClientSettings, ProducerSettings, ConsumerSettings)


@dataclass(frozen=True, slots=True)
class Target:
    """What `client_options` hands to a command."""

    # As given on the command line.
    explicit: str | None
    otherwise: str
    # Settings of the profile and of the --command-config file, which serve every kind of client.
    shared: Mapping[str, str] = field(default_factory=dict)

    def resolve(
        self, settings_class: type[S], given: Mapping[str, str] | None = None
    ) -> tuple[str, S]:
        """The bootstrap servers and the settings; `given` are the name=value pairs of this command
        line."""
        own = _in_javas_names(given or {})
        named = own.pop(BOOTSTRAP, None)
        settings = client_settings(settings_class, self.shared, own)
        return self.explicit or named or self.otherwise, settings

    def sharing(self, given: Mapping[str, str]) -> Target:
        """The same with name=value pairs that serve clients of several kinds."""
        own = _in_javas_names(given)
        otherwise = own.pop(BOOTSTRAP, self.otherwise)
        return Target(self.explicit, otherwise, {**self.shared, **own})


def find_target(bootstrap_server: str, profile: str | None, command_config: str | None) -> Target:
    """From the options that `options.client_options` adds to the command that runs."""
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
    """Settings that all count: what this client cannot honour is refused, because a record that
    was to be sent over TLS must not be sent without.

    Shared settings may also be meant for another kind of client, and are left to it.
    """
    kept = _without_what_is_so({**shared, **given})
    shared = {name: text for name, text in kept.items() if name not in given}
    given = {name: text for name, text in kept.items() if name in given}
    # Protocol, mechanism and passwords make sense only together, wherever they come from.
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
            "the client settings cannot be used",
            why=str(error),
            hint="correct it in -X, --command-config or the profile, wherever it comes from",
        ) from error
    refused = sorted(nobodys.union(unknown))
    if refused:
        raise _refusal(settings_class, refused)
    return settings


def _without_what_is_so(properties: Mapping[str, str]) -> dict[str, str]:
    """Kafka's clients look at ssl.* and sasl.* only under a security.protocol that needs them."""
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
    """Refuse a profile that no client could use."""
    shared = _in_javas_names(properties)
    shared.pop(BOOTSTRAP, None)
    for kind in _CLIENTS:
        client_settings(kind, shared, {})


def _refusal(settings_class: type[ClientSettings], names: list[str]) -> CliError:
    texts = [name + _explained(settings_class, name) for name in names]
    return CliError(
        "the client settings cannot be used",
        why=f"this client cannot honour {', '.join(texts)}",
        hint="correct the names, or take them out of -X, --command-config or the profile",
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
