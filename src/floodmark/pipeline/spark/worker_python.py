"""The Python that Spark starts for a local session: this one, but faster to start.

Called by `session.py` for whole sessions, and by `registration.py` for our part of users' sessions.
Spark puts its zipped copy of PySpark before the installed package. A zip keeps no bytecode, so
every new process compiles PySpark from source, which takes longer than all other imports together.
A stream starts with such a process.
"""

from __future__ import annotations

import os
import shlex
import stat
import sys
import uuid
from collections.abc import Mapping
from importlib.util import cache_from_source, find_spec
from pathlib import Path

# What Spark prepends ends with its own jar; what follows is the user's. Spark may know the jar's
# folder by another path than Python, such as one without links.
_LAUNCHER = """#!/bin/sh
jar={jar}
PYTHONPATH="${{PYTHONPATH##*"$jar"}}"
export PYTHONPATH="${{PYTHONPATH#:}}"
{bytecode}exec {python} "$@"
"""
# If nothing was compiled at installation and nothing may be written next to the sources, every
# process would compile them all again.
_BYTECODE = """unset PYTHONDONTWRITEBYTECODE
export PYTHONPYCACHEPREFIX={folder}
"""


def worker_python(environment: Mapping[str, str], scratch: Path) -> str:
    """A command that starts this Python. `scratch` is a folder for a launcher."""
    package = _installed_pyspark()
    if package is None or os.name != "posix" or _is_another_spark(environment, package):
        return sys.executable
    jar = next(package.glob("jars/spark-core_*.jar"), None)
    if jar is None:
        return sys.executable
    bytecode = ""
    if environment.get("PYTHONDONTWRITEBYTECODE") and not _is_compiled(package):
        bytecode = _BYTECODE.format(folder=shlex.quote(str(scratch / "floodmark-bytecode")))
    # Users may add files with their own names to this folder.
    launcher = scratch / "floodmark-python"
    text = _LAUNCHER.format(
        jar=shlex.quote(f"/jars/{jar.name}"), bytecode=bytecode, python=shlex.quote(sys.executable)
    )
    if not launcher.exists():
        _put(launcher, text)
    # The folder may be on a disk that does not allow execution.
    return str(launcher) if os.access(launcher, os.X_OK) else sys.executable


def _put(launcher: Path, text: str) -> None:
    """In one step: queries in other threads may be about to start it."""
    draft = launcher.with_name(f"{launcher.name}.{uuid.uuid4().hex}")
    draft.write_text(text)
    draft.chmod(draft.stat().st_mode | stat.S_IXUSR)
    draft.replace(launcher)


def _installed_pyspark() -> Path | None:
    spec = find_spec("pyspark")
    return None if spec is None or spec.origin is None else Path(spec.origin).parent


def _is_another_spark(environment: Mapping[str, str], package: Path) -> bool:
    """Whether Spark itself is not the one in the installed package."""
    home = environment.get("SPARK_HOME")
    return home is not None and Path(home).resolve() != package.resolve()


def _is_compiled(package: Path) -> bool:
    """Whether the installation of PySpark and Floodmark included bytecode, unlike a checkout."""
    ours = Path(__file__).parents[2]
    samples = (package / "worker_util.py", ours / "pipeline" / "datasource" / "source.py")
    return ours.parent == package.parent and all(
        Path(cache_from_source(str(sample))).exists() for sample in samples
    )
