"""The Python that Spark starts beside a local session: the same one, but quick to begin.

Called by `session.py`. Spark puts the zipped copy of PySpark that its installation carries before
the installed package. A zip keeps no bytecode, so every new process compiles PySpark from source,
which takes longer than all other imports together; a stream begins with such a process.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

# What Spark puts in front ends with its own jar; what follows is the user's.
_LAUNCHER = """#!/bin/sh
PYTHONPATH="${{PYTHONPATH##*"{jar}"}}"
export PYTHONPATH="${{PYTHONPATH#:}}"
exec "{python}" "$@"
"""


def worker_python(environment: Mapping[str, str], scratch: Path) -> str:
    """A command that starts this Python; `scratch` is a folder in which a launcher may be put."""
    jar = None if "SPARK_HOME" in environment else _core_jar()
    if jar is None or os.name != "posix":
        return sys.executable
    launcher = scratch / "python"
    launcher.write_text(_LAUNCHER.format(jar=jar, python=sys.executable))
    launcher.chmod(launcher.stat().st_mode | stat.S_IXUSR)
    return str(launcher)


def _core_jar() -> Path | None:
    """The last entry of Spark's own PYTHONPATH, if the installed PySpark brings Spark along."""
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        return None
    return next(Path(spec.origin).parent.glob("jars/spark-core_*.jar"), None)
