"""Loads a pipeline file and its settings.

Called by the command line. The file is Python. Settings come from pipeline.toml next to it, then
from the chosen environment in it, then from environment variables (`settings.py`), then from --set.

Some files need Spark to load, because they declare functions such as `@udf("long")`. Spark starts
with the pipeline's own settings, so such a file is loaded again once it runs: see `finished`.
"""

from __future__ import annotations

import ast
import importlib.util
import os
import sys
import tomllib
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from floodmark.pipeline.authoring.declarations import Pipeline
from floodmark.pipeline.authoring.settings import (
    RUN_SECTION,
    RunOptions,
    parse_run_options,
    resolve,
    settings_in,
)
from floodmark.pipeline.errors import PipelineError

SETTINGS_FILE = "pipeline.toml"
DEFAULT_FILE = "pipeline.py"
_MODULE_NAME = "floodmark_pipeline_file"


def load_pipeline(
    path: Path, *, environment: str | None = None, overrides: Mapping[str, str] | None = None
) -> Pipeline:
    """The one pipeline that the file declares, with its settings.

    Without Spark it may be incomplete: `finished` returns all of it.
    """
    path = path / DEFAULT_FILE if path.is_dir() else path
    if not path.exists():
        raise PipelineError(
            f"{path} does not exist: name a pipeline file, or create one with "
            "`floodmark pipeline new NAME`"
        )
    settings = {**load_settings(path.parent, environment), **(overrides or {})}

    def load() -> Pipeline:
        pipeline = _only_pipeline(path, _import(path))
        pipeline.settings = settings
        return pipeline

    try:
        return load()
    except _NeedsSpark:
        pipeline = _announced(path)
        pipeline.unfinished = load
        return pipeline


def finished(pipeline: Pipeline) -> Pipeline:
    """The complete pipeline. Call it when Spark runs."""
    return pipeline if pipeline.unfinished is None else pipeline.unfinished()


class _NeedsSpark(PipelineError):
    """PySpark refused something in the file, and no Spark is running."""


def _only_pipeline(path: Path, module: ModuleType) -> Pipeline:
    found = {id(v): v for v in vars(module).values() if isinstance(v, Pipeline)}
    if len(found) != 1:
        raise PipelineError(
            f"{path} declares {len(found) or 'no'} pipelines: write one "
            '`pipeline = Pipeline("name")` at its top'
        )
    (pipeline,) = found.values()
    return pipeline


def _announced(path: Path) -> Pipeline:
    """The pipeline's name and Spark settings, as the file's text has them."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("Pipeline"):
            try:
                positional = [ast.literal_eval(argument) for argument in node.args]
                named = {k.arg: ast.literal_eval(k.value) for k in node.keywords if k.arg}
                return Pipeline(*positional, **named)
            except (ValueError, TypeError):
                raise PipelineError(
                    f"{path.name}:{node.lineno}: this file needs Spark to load, which starts with "
                    "the name and the settings of Pipeline(...): write them as plain values here"
                ) from None
    raise PipelineError(f'{path} declares no pipelines: write one `pipeline = Pipeline("name")`')


def load_settings(folder: Path, environment: str | None) -> dict[str, Any]:
    path = folder / SETTINGS_FILE
    settings: dict[str, Any] = {}
    for section in _sections(path, environment, "settings"):
        settings |= {k: v for k, v in section.items() if k != RUN_SECTION}
    given = settings_in(os.environ, settings)
    kept = {name: value for name, value in settings.items() if name not in given}
    return {k: resolve(path, k, v, os.environ) for k, v in kept.items()} | given


def load_run_options(path: Path, environment: str | None) -> RunOptions:
    """What pipeline.toml says about how to run the pipeline."""
    path = (path if path.is_dir() else path.parent) / SETTINGS_FILE
    top, *chosen = _sections(path, environment, RUN_SECTION)
    sections = [top, *(_section(path, section, RUN_SECTION) for section in chosen)]
    return parse_run_options(path, sections, os.environ)


def same_modules(paths: Sequence[Path]) -> str | None:
    """A module that one of these files has imported from its folder and that another has, too."""
    folders = {(path if path.is_dir() else path.parent).resolve() for path in paths}
    for folder in folders:
        for module in _modules_beside(folder / DEFAULT_FILE):
            name = module.__name__
            others = [other for other in folders if other != folder]
            if name != _MODULE_NAME and any(
                (other / f"{name}.py").exists() or (other / name).is_dir() for other in others
            ):
                return name
    return None


def _sections(path: Path, environment: str | None, name: str) -> list[dict[str, Any]]:
    """The section of this name at the top of the file, then that of the environment."""
    if not path.exists():
        if environment is not None:
            raise PipelineError(f"--env {environment} is given, but there is no {path}")
        return [{}]
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        raise PipelineError(f"{path} could not be read: {error}") from error
    found = [_section(path, document, name)]
    if environment is not None:
        environments = _section(path, document, "environments")
        if environment not in environments:
            known = ", ".join(environments) or "none"
            raise PipelineError(f"{path} has no environment {environment} (there are: {known})")
        found.append(_section(path, environments, environment))
    return found


def _section(path: Path, document: Mapping[str, Any], name: str) -> dict[str, Any]:
    section = document.get(name, {})
    if not isinstance(section, dict):
        raise PipelineError(f"{path}: {name} is {section!r}, but must be a section of name = value")
    return dict(section)


def _import(path: Path) -> ModuleType:
    # Imported late: it loads all of PySpark, which `--help` must not wait for.
    from pyspark import cloudpickle

    spec = importlib.util.spec_from_file_location(_MODULE_NAME, path.resolve())
    if spec is None or spec.loader is None:
        raise PipelineError(f"{path} is not a Python file: name a pipeline file that ends in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[_MODULE_NAME] = module
    # Like Python does for a script, so that the file may import its neighbours.
    if (folder := str(path.resolve().parent)) not in sys.path:
        sys.path.insert(0, folder)
    try:
        spec.loader.exec_module(module)
    except PipelineError:
        raise
    except Exception as error:
        line = _last_line_in(path, error)
        kind = _NeedsSpark if _is_without_spark(error) else PipelineError
        raise kind(
            f"{path.name}:{line}: could not load the file: {type(error).__name__}: {error}"
        ) from error
    # Workers cannot import the author's files, so their functions are pickled by value.
    register: Any = cloudpickle.register_pickle_by_value
    for own in (module, *_modules_beside(path)):
        register(own)
    return module


def _is_without_spark(error: Exception) -> bool:
    """Whether PySpark raised it while no Spark is running: with Spark it may well work."""
    from pyspark import SparkContext

    frames = traceback.extract_tb(error.__traceback__)
    return SparkContext._active_spark_context is None and "/pyspark/" in frames[-1].filename


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
