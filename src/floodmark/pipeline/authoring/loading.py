"""Loads a pipeline file and its settings.

Called by the command line. The file is Python. Settings come from pipeline.toml next to it, then
from the chosen environment in it, then from --set.
"""

from __future__ import annotations

import importlib.util
import sys
import tomllib
import traceback
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from floodmark.pipeline.authoring.declarations import Pipeline
from floodmark.pipeline.errors import PipelineError

SETTINGS_FILE = "pipeline.toml"
DEFAULT_FILE = "pipeline.py"
_MODULE_NAME = "floodmark_pipeline_file"


def load_pipeline(
    path: Path, *, environment: str | None = None, overrides: Mapping[str, str] | None = None
) -> Pipeline:
    """The one pipeline that the file declares, with its settings."""
    path = path / DEFAULT_FILE if path.is_dir() else path
    if not path.exists():
        raise PipelineError(
            f"{path} does not exist: name a pipeline file, or create one with "
            "`floodmark pipeline new NAME`"
        )
    found = {id(v): v for v in vars(_import(path)).values() if isinstance(v, Pipeline)}
    if len(found) != 1:
        raise PipelineError(
            f"{path} declares {len(found) or 'no'} pipelines: write one "
            '`pipeline = Pipeline("name")` at its top'
        )
    (pipeline,) = found.values()
    pipeline.settings = {**load_settings(path.parent, environment), **(overrides or {})}
    return pipeline


def load_settings(folder: Path, environment: str | None) -> dict[str, Any]:
    path = folder / SETTINGS_FILE
    if not path.exists():
        if environment is not None:
            raise PipelineError(f"--env {environment} is given, but there is no {path}")
        return {}
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        raise PipelineError(f"{path} could not be read: {error}") from error
    settings = _section(path, document, "settings")
    if environment is not None:
        environments = _section(path, document, "environments")
        if environment not in environments:
            known = ", ".join(environments) or "none"
            raise PipelineError(f"{path} has no environment {environment} (there are: {known})")
        settings |= _section(path, environments, environment)
    return settings


def _section(path: Path, document: Mapping[str, Any], name: str) -> dict[str, Any]:
    section = document.get(name, {})
    if not isinstance(section, dict):
        raise PipelineError(f"{path}: {name} is {section!r}, but must be a section of name = value")
    return dict(section)


def _import(path: Path) -> Any:
    # Imported late: it loads all of PySpark, which `--help` must not wait for.
    from pyspark import cloudpickle

    spec = importlib.util.spec_from_file_location(_MODULE_NAME, path.resolve())
    if spec is None or spec.loader is None:
        raise PipelineError(f"{path} is not a Python file: name a pipeline file that ends in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[_MODULE_NAME] = module
    # Like Python does for a script, so that the file may import its neighbours.
    sys.path.insert(0, str(path.resolve().parent))
    try:
        spec.loader.exec_module(module)
    except PipelineError:
        raise
    except Exception as error:
        line = _last_line_in(path, error)
        raise PipelineError(
            f"{path.name}:{line}: could not load the file: {type(error).__name__}: {error}"
        ) from error
    # Workers cannot import the author's files, so their functions are pickled by value.
    register: Any = cloudpickle.register_pickle_by_value
    for own in (module, *_modules_beside(path)):
        register(own)
    return module


def _modules_beside(path: Path) -> list[ModuleType]:
    """The modules and packages from the file's folder that it has imported."""
    folder = str(path.resolve().parent)
    return [
        module
        # A copy, because some modules create others when accessed.
        for name, module in list(sys.modules.items())
        if "." not in name and folder in _folders_of(module)
    ]


def _folders_of(module: ModuleType) -> set[str]:
    """A module's or package's folders. A package without __init__.py may have several."""
    file = getattr(module, "__file__", None)
    if file is not None:
        return {str(Path(file).parents[1 if hasattr(module, "__path__") else 0])}
    return {str(Path(part).parent) for part in getattr(module, "__path__", ())}


def _last_line_in(path: Path, error: Exception) -> int:
    file = str(path.resolve())
    if isinstance(error, SyntaxError) and error.filename == file and error.lineno is not None:
        return error.lineno
    lines = [
        frame.lineno
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename == file and frame.lineno is not None
    ]
    return lines[-1] if lines else 1
