"""An archive of this Python environment and a pipeline's folder, for clusters without Floodmark.

Called by `floodmark pipeline package` and `submit`. The layout is that of venv-pack: Spark unpacks
it on every worker (`--archives FILE#environment`), whose Python is then `environment/bin/python`.
The interpreter itself is a link to that of this machine's base installation, as in any virtual
environment: workers need the same version at the same path.
"""

from __future__ import annotations

import io
import os
import sys
import sysconfig
import tarfile
from collections.abc import Iterator, Sequence
from fnmatch import fnmatch
from pathlib import Path

from floodmark.pipeline.errors import PipelineError

# The folder in the archive that holds the pipeline's files.
PIPELINE_FOLDER = "pipeline"
# The name of the unpacked archive, and of the link to this environment next to it.
ENVIRONMENT = "environment"
MAIN_FILE = "main.py"
_MAIN = '''"""Starts the command line under spark-submit."""

from floodmark.cli.main import main

main()
'''
# Workers bring Spark themselves; its jars are by far the largest part of PySpark.
_NEVER = (
    "pyspark/jars/*",
    "pyspark/examples/*",
    "pyspark/data/*",
    "pyspark/licenses/*",
    # Where a worker started from this environment unpacks archives, this one among them.
    "pyspark/work/*",
    "pyspark/logs/*",
    "pandas/tests/*",
    "pyarrow/tests/*",
    "pyarrow/include/*",
    "numpy/*/tests/*",
)
_NOT_OF_A_PIPELINE = (".floodmark", "tables", "__pycache__", ".venv", ".git", "dist")
# Fast rather than small: workers fetch it once, people wait for it often.
_COMPRESSION = 1


def write_archive(target: Path, pipeline_folder: Path, exclude: Sequence[str] = ()) -> int:
    """Writes the archive in one step. Returns its size in bytes."""
    packages = Path(sysconfig.get_path("purelib"))
    native = Path(sysconfig.get_path("platlib"))
    target.parent.mkdir(parents=True, exist_ok=True)
    draft = target.with_name(target.name + ".tmp")
    with tarfile.open(draft, "w:gz", compresslevel=_COMPRESSION, dereference=False) as archive:
        inside = f"lib/{Path(packages).parent.name}/site-packages"
        taken: set[str] = set()
        for folder in dict.fromkeys((packages, native)):
            for path, name in _files_of(folder, (*_NEVER, *exclude)):
                if name not in taken:
                    taken.add(name)
                    archive.add(path, f"{inside}/{name}", recursive=False)
        _add_python(archive)
        for path in sorted(pipeline_folder.rglob("*")):
            inner = path.relative_to(pipeline_folder)
            if path.is_file() and not set(inner.parts) & set(_NOT_OF_A_PIPELINE):
                archive.add(path, f"{PIPELINE_FOLDER}/{inner}", recursive=False)
    draft.replace(target)
    return target.stat().st_size


def write_rest(folder: Path) -> None:
    """What a driver on this machine needs beside the archive."""
    (folder / MAIN_FILE).write_text(_MAIN, encoding="utf-8")
    link = folder / ENVIRONMENT
    if link.is_symlink():
        link.unlink()
    link.symlink_to(sys.prefix, target_is_directory=True)


def _files_of(folder: Path, exclude: Sequence[str]) -> Iterator[tuple[Path, str]]:
    """The installed files and their names below site-packages."""
    for entry in sorted(folder.iterdir()):
        if entry.suffix == ".pth":
            yield from _linked_files(entry, exclude)
        else:
            yield from _walk(entry, entry.name, exclude)


def _walk(path: Path, name: str, exclude: Sequence[str]) -> Iterator[tuple[Path, str]]:
    if any(fnmatch(name, pattern) for pattern in exclude):
        return
    if path.is_dir():
        for inner in sorted(path.iterdir()):
            yield from _walk(inner, f"{name}/{inner.name}", exclude)
    elif path.exists():
        yield path, name


def _linked_files(pth: Path, exclude: Sequence[str]) -> Iterator[tuple[Path, str]]:
    """The packages of a checkout that is installed editable: workers do not have the checkout."""
    for line in pth.read_text(encoding="utf-8").splitlines():
        folder = Path(line)
        if line.startswith("import") and "__editable__" in line:
            raise PipelineError(
                f"{pth.name} links to a package in a form that cannot be packed: install the "
                "package itself, without -e"
            )
        if line.startswith(("#", "import")) or not line.strip() or not folder.is_dir():
            continue
        for entry in sorted(folder.iterdir()):
            if (entry / "__init__.py").exists() or entry.suffix == ".py":
                yield from _walk(entry, entry.name, exclude)


def _add_python(archive: tarfile.TarFile) -> None:
    """A virtual environment's own files: the link to the interpreter, and where it is."""
    base = Path(os.path.realpath(sys.executable))
    settings = f"home = {base.parent}\ninclude-system-site-packages = false\n"
    _add_text(archive, "pyvenv.cfg", settings)
    for name, link in (("python", str(base)), ("python3", "python")):
        info = tarfile.TarInfo(f"bin/{name}")
        info.type = tarfile.SYMTYPE
        info.linkname = link
        info.mode = 0o755
        archive.addfile(info)


def _add_text(archive: tarfile.TarFile, name: str, text: str) -> None:
    content = text.encode()
    info = tarfile.TarInfo(name)
    info.size = len(content)
    info.mode = 0o644
    archive.addfile(info, io.BytesIO(content))
