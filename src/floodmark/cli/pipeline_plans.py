"""A pipeline file together with the command line's options, which decide where it runs.

Used by `floodmark pipeline run` and `check`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from floodmark.cli.options import pairs
from floodmark.cli.pipeline_kit import SparkOptions, broker_of
from floodmark.pipeline.authoring.loading import load_pipeline, load_run_options

if TYPE_CHECKING:
    from floodmark.pipeline.authoring.declarations import Pipeline
    from floodmark.pipeline.authoring.settings import RunOptions


@dataclass(frozen=True)
class Planned:
    """A pipeline to run, and where."""

    pipeline: Pipeline
    bootstrap_server: str
    folder: str
    options: RunOptions


@dataclass(frozen=True)
class PlanOptions:
    """The options of `file_options` and the checkpoint's, under their own names."""

    environment: str | None
    settings: tuple[str, ...]
    master: str | None
    spark_settings: tuple[str, ...]
    spark_log: str | None
    bootstrap_server: str
    checkpoint: str | None
    checkpoints: str

    @property
    def spark(self) -> SparkOptions:
        return SparkOptions(self.master, pairs(self.spark_settings), self.spark_log)

    def plan(self, path: Path) -> Planned:
        """Loads the file. Where the command line says nothing, pipeline.toml decides."""
        options = load_run_options(path, self.environment)
        pipeline = load_pipeline(path, environment=self.environment, overrides=pairs(self.settings))
        own_folder = f"{self.checkpoints.rstrip('/')}/{pipeline.name}"
        folder = self.checkpoint or options.checkpoint or own_folder
        broker = broker_of(self.bootstrap_server, options.bootstrap_server)
        return Planned(pipeline, broker, folder, options)
