"""Parses Java's `sasl.jaas.config` values. PURE.

org.apache.kafka.common.security.plain.PlainLoginModule required
    username="admin" password="admin-secret" user_alice="alice-secret";
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from floodmark.security.errors import SecurityError

_TOKEN = re.compile(
    r"""\s+|//[^\n]*|/\*.*?\*/|(?P<sign>[=;])|"(?P<quoted>(?:\\.|[^"\\])*)"|(?P<word>[^\s=;"]+)""",
    re.DOTALL,
)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}
_FLAGS = ("required", "requisite", "sufficient", "optional")
_USER = "user_"


@dataclass(frozen=True, slots=True)
class JaasEntry:
    module: str
    options: dict[str, str] = field(repr=False)
    """Never shown, because it includes passwords."""

    @property
    def users(self) -> dict[str, str]:
        """The passwords by name that PlainLoginModule lists as `user_NAME="..."`."""
        return {
            name.removeprefix(_USER): value
            for name, value in self.options.items()
            if name.startswith(_USER)
        }


def parse_jaas(text: str, setting: str = "sasl.jaas.config") -> JaasEntry:
    """Raises SecurityError if it is malformed. The text contains no part of the value."""
    tokens = _tokens(text, setting)
    if len(tokens) < 3 or tokens[-1] != (";", True):
        raise _unreadable(setting, "it does not end with a semicolon")
    (module, _), (flag, _), *rest = tokens[:-1]
    if flag.lower() not in _FLAGS:
        raise _unreadable(setting, "`required` does not follow the name of the login module")
    if (";", True) in rest:
        raise _unreadable(setting, "it must have one login module, not several")
    options: dict[str, str] = {}
    for at in range(0, len(rest), 3):
        part = rest[at : at + 3]
        if len(part) != 3 or part[1] != ("=", True) or part[0][1] or part[2][1]:
            raise _unreadable(setting, 'its options are not of the form name="value"')
        options[part[0][0]] = part[2][0]
    return JaasEntry(module, options)


def _tokens(text: str, setting: str) -> list[tuple[str, bool]]:
    """The words, and whether each is a syntax character."""
    tokens: list[tuple[str, bool]] = []
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise _unreadable(setting, "a quotation mark is not closed")
        position = match.end()
        if match["sign"]:
            tokens.append((match["sign"], True))
        elif match["quoted"] is not None:
            unescaped = _ESCAPE.sub(lambda part: _ESCAPES.get(part[1], part[1]), match["quoted"])
            tokens.append((unescaped, False))
        elif match["word"]:
            tokens.append((match["word"], False))
    return tokens


def _unreadable(setting: str, why: str) -> SecurityError:
    return SecurityError(
        f"{setting} is malformed: {why}",
        'For example: ...PlainLoginModule required username="alice" password="...";',
    )
