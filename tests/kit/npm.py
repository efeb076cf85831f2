"""A JavaScript program beside its packages in the cache: node_modules stays out of the tree."""

import hashlib
import shutil
from pathlib import Path

from kit.jars import cache_lock
from kit.programs import run_program
from kit.tools import require_tool


def npm_program(source: Path, packages: Path) -> Path:
    """Where `source` runs from, with the packages of the package.json `packages` installed."""
    require_tool("node", "npm")
    digest = hashlib.sha256(packages.read_bytes()).hexdigest()[:16]
    with cache_lock(f"npm-{digest}") as folder:
        if not (folder / "installed").exists():
            shutil.copy(packages, folder / "package.json")
            run_program(["npm", "install", "--no-audit", "--no-fund"], timeout_s=240, cwd=folder)
            (folder / "installed").touch()
        return Path(shutil.copy(source, folder))
