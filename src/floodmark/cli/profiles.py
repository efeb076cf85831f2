"""Profiles: named client settings in `~/.config/floodmark/profiles/NAME.properties`.

`target.py` reads a command's profile; `profile.py` lists and writes profiles.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

import click

from floodmark.cli.errors import CliError
from floodmark.config.errors import ConfigError
from floodmark.config.loaders import parse_properties
from floodmark.config.suggestions import did_you_mean

SUFFIX = ".properties"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def config_folder() -> Path:
    """Follows the XDG rule of ignoring a relative path in the variable."""
    given = Path(os.environ.get("XDG_CONFIG_HOME", ""))
    return (given if given.is_absolute() else Path.home() / ".config") / "floodmark"


def profile_path(name: str) -> Path:
    if not _NAME.fullmatch(name):
        raise click.UsageError(
            f"'{name}' is not a profile name: use letters, digits, '.', '_' and '-'"
        )
    return config_folder() / "profiles" / f"{name}{SUFFIX}"


def profile_names() -> list[str]:
    folder = config_folder() / "profiles"
    return sorted(path.name.removesuffix(SUFFIX) for path in folder.glob(f"*{SUFFIX}"))


def read_profile(name: str) -> dict[str, str]:
    path = profile_path(name)
    if not path.exists():
        raise CliError(
            f"profile {name}{did_you_mean(name, profile_names())} does not exist",
            why=f"{path} does not exist",
            hint="see `floodmark profile list`, or use none with `floodmark profile use --none`",
        )
    return read_properties(path)


def read_properties(path: Path) -> dict[str, str]:
    """Reads a file of client settings, such as a profile."""
    try:
        return parse_properties(path.read_text(encoding="utf-8"))
    except (ConfigError, OSError, UnicodeDecodeError) as error:
        raise CliError(
            f"{path} is not a valid settings file",
            why=str(error),
            hint="write name=value lines in UTF-8, as in Java's properties files",
        ) from error


def write_profile(name: str, properties: Mapping[str, str]) -> Path:
    """Only the owner can read the file, because settings may include secrets."""
    path = profile_path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(f"{key}={_escaped(value)}\n" for key, value in sorted(properties.items()))
    path.touch(mode=0o600)
    path.write_text(text, encoding="utf-8")
    return path


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace("\t", "\\t")


def current_profile() -> str | None:
    """The profile chosen with `floodmark profile use`."""
    path = _current_path()
    return (path.read_text(encoding="utf-8").strip() or None) if path.exists() else None


def use_profile(name: str | None) -> None:
    path = _current_path()
    if name is None:
        path.unlink(missing_ok=True)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{name}\n", encoding="utf-8")


def _current_path() -> Path:
    return config_folder() / "current-profile"
