"""Go programs of the tests, built once; Go's own cache makes that quick when nothing changed."""

from pathlib import Path

from kit.jars import cache_lock
from kit.programs import run_program
from kit.tools import require_tool


def built(folder: Path, name: str) -> Path:
    require_tool("go")
    with cache_lock("go") as cache:
        program = cache / name
        run_program(["go", "build", "-o", str(program), "."], timeout_s=300, cwd=folder)
    return program
