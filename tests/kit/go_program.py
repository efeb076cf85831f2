"""Go programs of the tests, built once; Go's own cache makes that quick when nothing changed."""

import shutil
from collections.abc import Mapping
from pathlib import Path

from kit.jars import cache_lock
from kit.programs import run_program
from kit.tools import require_tool


def built(folder: Path, name: str, written: Mapping[str, str] | None = None) -> Path:
    """Build the program of a folder, with further sources by their path."""
    require_tool("go")
    with cache_lock("go") as cache:
        program = cache / name
        if written:
            copy = cache / f"{name}-source"
            shutil.rmtree(copy, ignore_errors=True)
            folder = shutil.copytree(folder, copy)
            for path, text in written.items():
                (folder / path).parent.mkdir(parents=True, exist_ok=True)
                (folder / path).write_text(text)
        run_program(["go", "build", "-o", str(program), "."], timeout_s=300, cwd=folder)
    return program
