"""How every Python process of ours is started: without modules from the working folder.

`python -m` looks there first, so a `queue.py` that happens to lie in it would be run instead of
Python's own. Called by `storage.cleaner` and `cli.demo_broker`. Spark's workers are not ours to
start: they run the user's code, and find its modules as Spark does.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

# -P and not -I: an installation that PYTHONPATH names has to be found. Our own folder goes to the
# end of the path, for a broker inside a program that has found us in another way.
_RUN: Final = (
    "import runpy, sys; sys.path.append(sys.argv.pop(1)); "
    "runpy.run_module(sys.argv.pop(1), run_name='__main__', alter_sys=True)"
)
_OUR_FOLDER: Final = str(Path(__file__).parents[1])


def child_python(module: str, *arguments: str) -> list[str]:
    """The command that runs one of our modules."""
    return [sys.executable, "-P", "-c", _RUN, _OUR_FOLDER, module, *arguments]
