"""Sources of properties: a server.properties or TOML file, the environment, `--set key=value`.

Called by cli/ and the pytest plugin, which read files and environment and pass texts in (this
package does no IO). The result is a flat mapping of Kafka's dotted names to texts for
`BrokerConfig.load`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from floodmark.config.errors import ConfigError
from floodmark.config.settings import BROKER_SETTINGS_BY_NAME

ENVIRONMENT_PREFIX = "FLOODMARK_"
# Variables of the command line and the test suite, which are not broker settings.
_NOT_SETTINGS = (
    "FLOODMARK_CONFIG",
    "FLOODMARK_BOOTSTRAP_SERVER",
    "FLOODMARK_PROFILE",
    "FLOODMARK_LOG_FORMAT",
    "FLOODMARK_TEST_",
    "FLOODMARK_CRASH_",
    "FLOODMARK_EOS_",
    "FLOODMARK_FUZZ_",
    "FLOODMARK_SIM_",
    "FLOODMARK_SPARK_",
    "FLOODMARK_CONFORMANCE_",
)
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def parse_properties(text: str) -> dict[str, str]:
    """Parses Java's properties.

    `key=value`, `key: value` or `key value`, with comments, escapes and continuation lines.
    """
    properties: dict[str, str] = {}
    for line in _logical_lines(text):
        key, value = _split_line(line)
        properties[_unescape(key)] = _unescape(value)
    return properties


def parse_toml(text: str) -> dict[str, str]:
    """Parses TOML. Nested tables are joined with dots: `[log.retention]` with `ms = 60000` is
    log.retention.ms.
    """
    import tomllib  # Imported late: it costs 10 ms, which `--help` should not spend

    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(
            f"the configuration file is not valid TOML: {error}",
            hint="Correct that line, or name the file *.properties if it is in Java's syntax",
        ) from error
    properties: dict[str, str] = {}
    _flatten("", document, properties)
    return properties


def parse_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """`FLOODMARK_LOG_RETENTION_MS=60000` is log.retention.ms.

    `___` stands for a dash, `__` for `_`.
    """
    properties: dict[str, str] = {}
    known = {_variable(name): name for name in BROKER_SETTINGS_BY_NAME}
    for variable, value in environment.items():
        if not variable.startswith(ENVIRONMENT_PREFIX) or variable.startswith(_NOT_SETTINGS):
            continue
        properties[known.get(variable) or _dotted(variable)] = value
    return properties


def parse_pairs(pairs: Iterable[str]) -> dict[str, str]:
    """Parses the `key=value` texts of repeated `--set` options."""
    properties: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key.strip():
            raise ConfigError(
                f"'{pair}' is not of the form key=value",
                hint="For example --set log.retention.hours=24",
            )
        properties[key.strip()] = value.strip()
    return properties


def merge_sources(
    *,
    file: Mapping[str, str] | None = None,
    environment: Mapping[str, str] | None = None,
    pairs: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Pairs override the environment, which overrides the file."""
    return {**(file or {}), **(environment or {}), **(pairs or {})}


def _variable(name: str) -> str:
    """Our own settings already have the prefix: floodmark.produce.full.check gets no second one."""
    upper = name.upper().replace("-", "___").replace(".", "_")
    return upper if upper.startswith(ENVIRONMENT_PREFIX) else ENVIRONMENT_PREFIX + upper


def _dotted(variable: str) -> str:
    name = variable.removeprefix(ENVIRONMENT_PREFIX).lower()
    name = name.replace("___", "\x00").replace("__", "\x01").replace("_", ".")
    return name.replace("\x00", "-").replace("\x01", "_")


def _logical_lines(text: str) -> Iterable[str]:
    """Lines without comments. A line that ends in an odd number of backslashes continues."""
    continued = ""
    going_on = False
    for raw in text.replace("\r\n", "\n").replace("\r", "\n").split("\n"):
        line = raw.lstrip(" \t\f")
        if not going_on and (not line or line[0] in "#!"):
            continue
        backslashes = len(line) - len(line.rstrip("\\"))
        going_on = backslashes % 2 == 1
        continued += line[:-1] if going_on else line
        if not going_on:
            yield continued
            continued = ""
    if continued:
        yield continued


def _split_line(line: str) -> tuple[str, str]:
    """The key ends at the first unescaped `=`, `:` or blank."""
    position = 0
    while position < len(line) and line[position] not in "=: \t\f":
        position += 2 if line[position] == "\\" else 1
    key, rest = line[:position], line[position:].lstrip(" \t\f")
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(" \t\f")
    return key, rest


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    parts: list[str] = []
    position = 0
    while position < len(text):
        char = text[position]
        position += 1
        if char != "\\" or position == len(text):
            if char != "\\":
                parts.append(char)
            continue
        char = text[position]
        position += 1
        if char == "u":
            parts.append(_unicode(text[position : position + 4]))
            position += 4
        else:
            parts.append(_ESCAPES.get(char, char))
    return "".join(parts)


def _unicode(digits: str) -> str:
    try:
        if len(digits) != 4:
            raise ValueError(digits)
        return chr(int(digits, 16))
    except ValueError as error:
        raise ConfigError(
            f"'\\u{digits}' is not a character: four hexadecimal digits must follow \\u",
            hint="Write a backslash as two backslashes",
        ) from error


def _flatten(prefix: str, table: Mapping[str, object], into: dict[str, str]) -> None:
    for key, value in table.items():
        name = f"{prefix}{key}"
        if isinstance(value, dict):
            _flatten(f"{name}.", value, into)
        elif isinstance(value, bool):
            into[name] = "true" if value else "false"
        elif isinstance(value, list):
            into[name] = ",".join(str(item) for item in value)
        else:
            into[name] = str(value)
