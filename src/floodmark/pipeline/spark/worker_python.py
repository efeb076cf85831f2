"""The Python that Spark starts beside a local session: the same one, but quick to begin.

Called by `session.py` for whole sessions, and by `registration.py` for what is ours in those of
users. Spark puts the zipped copy of PySpark that its installation carries before the installed
package. A zip keeps no bytecode, so every new process compiles PySpark from source, which takes
longer than all other imports together; a stream begins with such a process.
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

# What Spark puts in front ends with its own jar; what follows is the user's.
_LAUNCHER = """#!/bin/sh
jar={jar}
PYTHONPATH="${{PYTHONPATH##*"$jar"}}"
export PYTHONPATH="${{PYTHONPATH#:}}"
{bytecode}exec {python} "$@"
"""
# Where nothing was compiled at installation and nothing may be written beside the sources, every
# process would compile them all again.
_BYTECODE = """unset PYTHONDONTWRITEBYTECODE
export PYTHONPYCACHEPREFIX={folder}
"""


def worker_python(environment: Mapping[str, str], scratch: Path) -> str:
    """A command that starts this Python; `scratch` is a folder in which a launcher may be put."""
    package = _installed_pyspark()
    if package is None or os.name != "posix" or _is_another_spark(environment, package):
        return sys.executable
    jar = next(package.glob("jars/spark-core_*.jar"), None)
    if jar is None:
        return sys.executable
    bytecode = ""
    if environment.get("PYTHONDONTWRITEBYTECODE") and not _is_compiled(package):
        bytecode = _BYTECODE.format(folder=shlex.quote(str(scratch / "floodmark-bytecode")))
    # The folder may be that of files which users add under names of their own.
    launcher = scratch / "floodmark-python"
    text = _LAUNCHER.format(
        jar=shlex.quote(str(jar)), bytecode=bytecode, python=shlex.quote(sys.executable)
    )
    if not launcher.exists():
        _put(launcher, text)
    # The folder may lie on a disk from which nothing is executed.
    return str(launcher) if os.access(launcher, os.X_OK) else sys.executable


def _put(launcher: Path, text: str) -> None:
    """In one step: queries of other threads may be about to start it."""
    draft = launcher.with_name(f"{launcher.name}.{uuid.uuid4().hex}")
    draft.write_text(text)
    draft.chmod(draft.stat().st_mode | stat.S_IXUSR)
    draft.replace(launcher)


def _installed_pyspark() -> Path | None:
    spec = find_spec("pyspark")
    return None if spec is None or spec.origin is None else Path(spec.origin).parent


def _is_another_spark(environment: Mapping[str, str], package: Path) -> bool:
    """Whether Spark itself comes from elsewhere than the installed package, which has one too."""
    home = environment.get("SPARK_HOME")
    return home is not None and Path(home).resolve() != package.resolve()


def _is_compiled(package: Path) -> bool:
    """Whether whoever installed PySpark and us made bytecode; a checkout is compiled by nobody."""
    ours = Path(__file__).parents[2]
    samples = (package / "worker_util.py", ours / "pipeline" / "datasource" / "source.py")
    return ours.parent == package.parent and all(
        Path(cache_from_source(str(sample))).exists() for sample in samples
    )
