"""Values in pipeline.toml that come from elsewhere, and the options of a run in it.

Called by `loading.py` for the settings of a pipeline, and by the command line for `[run]`. A value
may be `{env = "NAME"}` or `{file = "path"}`, so that secrets stay out of the file. Variables named
FLOODMARK_SET_NAME, and FLOODMARK_SET_NAME_FILE for a file with the value, override it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from floodmark.pipeline.errors import PipelineError

VARIABLE_PREFIX = "FLOODMARK_SET_"
_FILE_SUFFIX = "_FILE"
# The section with options of `pipeline run`, at the top of the file and in every environment.
RUN_SECTION = "run"


@dataclass(frozen=True)
class RunOptions:
    """A file's settings for running it. The command line overrides them."""

    bootstrap_server: str | None = None
    master: str | None = None
    checkpoint: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict)


def parse_run_options(
    path: Path, sections: Iterable[Mapping[str, Any]], variables: Mapping[str, str]
) -> RunOptions:
    """`sections` in increasing precedence; settings of Spark in `conf` are merged one by one."""
    texts: dict[str, str] = {}
    conf: dict[str, str] = {}
    for section in sections:
        for name, value in section.items():
            if name == "conf":
                if not isinstance(value, dict):
                    raise PipelineError(f"{path}: conf is {value!r}, but must be a section")
                conf |= {key: text_of(path, key, v, variables) for key, v in value.items()}
            elif name in ("bootstrap_server", "master", "checkpoint"):
                texts[name] = text_of(path, name, value, variables)
            else:
                raise PipelineError(
                    f"{path}: {name} in [{RUN_SECTION}] is unknown: use bootstrap_server, master, "
                    "checkpoint and conf"
                )
    return RunOptions(**texts, conf=conf)


def text_of(path: Path, name: str, value: Any, variables: Mapping[str, str]) -> str:
    """A value as Spark wants it: true, not True."""
    found = resolve(path, name, value, variables)
    return str(found).lower() if isinstance(found, bool) else str(found)


def resolve(path: Path, name: str, value: Any, variables: Mapping[str, str]) -> Any:
    """The value itself, or the one that `{env = ...}` or `{file = ...}` points to."""
    if not isinstance(value, dict):
        return value
    if list(value) == ["env"]:
        if value["env"] not in variables:
            raise PipelineError(f"{path}: {name} needs the variable {value['env']}, which is unset")
        return variables[value["env"]]
    if list(value) == ["file"]:
        return read_secret(path.parent / str(value["file"]), name)
    raise PipelineError(
        f'{path}: {name} is a section, but must be a value, {{env = "NAME"}} or {{file = "path"}}'
    )


def read_secret(path: Path, name: str) -> str:
    """A file's content without its last line end, as secrets are mounted into containers."""
    try:
        return path.read_text(encoding="utf-8").removesuffix("\n").removesuffix("\r")
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or error
        raise PipelineError(f"the file {path} for {name} could not be read: {why}") from error


def settings_in(variables: Mapping[str, str], known: Iterable[str]) -> dict[str, str]:
    """The settings that environment variables give, by the names that the file uses."""
    by_variable = {_variable_part(name): name for name in known}
    found = {}
    for variable, text in sorted(variables.items()):
        if not variable.startswith(VARIABLE_PREFIX) or variable == VARIABLE_PREFIX:
            continue
        part, value = variable.removeprefix(VARIABLE_PREFIX), text
        if part.endswith(_FILE_SUFFIX) and part not in by_variable:
            part = part.removesuffix(_FILE_SUFFIX)
            value = read_secret(Path(text), variable)
        found[by_variable.get(part, part.lower())] = value
    return found


def _variable_part(name: str) -> str:
    return name.upper().replace("-", "_")
