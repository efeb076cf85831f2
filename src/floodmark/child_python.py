"""Starts Python subprocesses without importing modules from the working directory.

`python -m` looks there first, so a `queue.py` in it would shadow the standard library's. Called by
`storage.compaction.cleaner` and `cli.demo_broker`. Spark's workers are not started here: they run
the user's code and find its modules as Spark does.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

# -P and not -I, so that PYTHONPATH still works. Our own folder goes to the end of the path, in case
# the parent process found us in another way.
_RUN: Final = (
    "import runpy, sys; sys.path.append(sys.argv.pop(1)); "
    "runpy.run_module(sys.argv.pop(1), run_name='__main__', alter_sys=True)"
)
_OUR_FOLDER: Final = str(Path(__file__).parents[1])


def child_python(module: str, *arguments: str) -> list[str]:
    """The command that runs one of our modules."""
    return [sys.executable, "-P", "-c", _RUN, _OUR_FOLDER, module, *arguments]
