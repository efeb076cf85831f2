"""PURE: override and absent rules that operators put below a service's `configurators`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from floodmark.service.errors import ConfigError
from floodmark.service.url import ANY_HOST, ANY_VALUE, URL, decode

_CONDITIONS = frozenset(
    {
        "category",
        "check",
        "dynamic",
        "enabled",
        "group",
        "version",
        "application",
        "side",
        "configVersion",
        "compatible_config",
        "interfaces",
        "interface",
        "priority",
    }
)


def parse_rules(names: Iterable[str]) -> list[URL]:
    """Parses rules from node names. Skips names that are not rules."""
    rules = []
    for name in names:
        try:
            rule = URL.parse(decode(name))
        except ConfigError:
            continue
        if rule.protocol in ("override", "absent"):
            rules.append(rule)
    return rules


def apply_rules(url: URL, rules: Sequence[URL]) -> URL:
    """Applies all matching rules to the URL, higher priority last."""
    matching = [rule for rule in rules if _is_for_service(rule, url)]
    for rule in sorted(matching, key=lambda rule: (rule.host, rule.get_int("priority", 0))):
        url = _apply(url, rule)
    return url


def _is_for_service(rule: URL, url: URL) -> bool:
    """Whether the rule is for the same interface, group and version."""
    if rule.interface not in (ANY_VALUE, url.interface) or not rule.get_bool("enabled", True):
        return False
    return all(
        rule.get(key) in (ANY_VALUE, url.get(key)) or url.get(key) == ANY_VALUE
        for key in ("group", "version")
    )


def _apply(url: URL, rule: URL) -> URL:
    # A rule with a port applies to that provider, one without to the whole host.
    if rule.port:
        if rule.port != url.port:
            return url
        host = url.host
    else:
        host = ANY_HOST
    if rule.host not in (ANY_HOST, host):
        return url
    addresses = rule.get("providerAddresses")
    if addresses and url.address not in addresses and ANY_HOST not in addresses:
        return url
    application = rule.get("application") or rule.username
    if application not in ("", ANY_VALUE, url.get("application")):
        return url
    conditions = set(_CONDITIONS) | {"providerAddresses", "anyhost"}
    for key, value in rule.parameters.items():
        if key.startswith("~") or key in ("application", "side"):
            conditions.add(key)
            if value not in (ANY_VALUE, url.get(key.removeprefix("~"))):
                return url
    changes = rule.without(conditions).parameters
    if not changes:
        return url
    return url.with_absent(changes) if rule.protocol == "absent" else url.with_parameters(changes)
