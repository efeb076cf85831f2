"""`ssl.principal.mapping.rules`: maps a certificate's subject to a principal. PURE.

    RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L,DEFAULT

The first rule whose pattern matches the whole subject decides. `L` and `U` change the case of the
result. Without a match there is no principal, and the connection closes.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from floodmark.security.errors import AuthenticationFailed, SecurityError

_PART = r"(?:\\.|[^\\/])*"
_RULE = re.compile(rf"\s*(?:(DEFAULT)|RULE:({_PART})/({_PART})/([LU]?))\s*(?:,|$)")
_GROUP = re.compile(r"\\(.)|\$(\d)|(\\$)")
_CASES: dict[str, Callable[[str], str]] = {"L": str.lower, "U": str.upper, "": str}


class Rule(NamedTuple):
    """Without a pattern, the subject is used unchanged."""

    pattern: re.Pattern[str] | None
    replacement: str
    case: str

    def apply(self, subject: str) -> str | None:
        if self.pattern is None:
            return subject
        match = self.pattern.fullmatch(subject)
        if match is None:
            return None
        return _CASES[self.case](_GROUP.sub(lambda part: _expanded(part, match), self.replacement))


def parse_rules(text: str) -> list[Rule]:
    """Raises SecurityError if they are malformed."""
    rules: list[Rule] = []
    position = 0
    while position < len(text.rstrip()):
        match = _RULE.match(text, position)
        if match is None:
            raise SecurityError(
                f"ssl.principal.mapping.rules is malformed at '{text[position:]}'",
                "Use RULE:pattern/replacement/ followed by an optional L or U, or DEFAULT",
            )
        rules.append(_rule(match))
        position = match.end()
    return rules or [Rule(None, "", "")]


def principal_name(rules: list[Rule], subject: str) -> str:
    for rule in rules:
        name = rule.apply(subject)
        if name is not None:
            return name
    raise AuthenticationFailed(f"no rule in ssl.principal.mapping.rules matches {subject}")


def _rule(match: re.Match[str]) -> Rule:
    if match[1]:
        return Rule(None, "", "")
    try:
        pattern = re.compile(match[2])
    except re.error as problem:
        raise SecurityError(
            f"ssl.principal.mapping.rules has an invalid pattern, {match[2]}: {problem}"
        ) from problem
    groups = [int(part[2]) for part in _GROUP.finditer(match[3]) if part[2]]
    if any(number > pattern.groups for number in groups):
        raise SecurityError(f"ssl.principal.mapping.rules: {match[2]} has no group {max(groups)}")
    return Rule(pattern, match[3], match[4])


def _expanded(part: re.Match[str], match: re.Match[str]) -> str:
    """Java's replacement syntax: `$1` is a group, a backslash escapes the next character."""
    if part[2]:
        return match[int(part[2])] or ""
    return part[1] or ""
