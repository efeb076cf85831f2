"""Folders of this machine and of other file systems alike, and small files replaced atomically.

Called by `checkpoints.py`, `run_records.py` and `topic_ids.py`. Readers of a small file see the old
or the new content.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from floodmark.pipeline.errors import PipelineError
from floodmark.pipeline.spark.hadoop_paths import HadoopPath, is_remote, local_path

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TEMPORARY_SUFFIX = ".tmp"
AnyPath = Path | HadoopPath


def open_folder(text: str, spark: SparkSession | None = None) -> AnyPath:
    """Anything but a folder of this machine needs a session, whose file systems it uses."""
    if not is_remote(text):
        return local_path(text)
    if spark is None:
        raise PipelineError(f"{text} is not a local folder, so a Spark session is needed to use it")
    return HadoopPath(text, spark)


def write_whole(path: AnyPath, text: str) -> None:
    if isinstance(path, HadoopPath):
        path.write_whole(text)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(path.name + TEMPORARY_SUFFIX)
    with temporary.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def modified_ms(path: AnyPath) -> int:
    if isinstance(path, HadoopPath):
        return path.modified_ms()
    return path.stat().st_mtime_ns // 1_000_000


def remove_tree(folder: AnyPath) -> None:
    if isinstance(folder, HadoopPath):
        folder.remove()
    else:
        shutil.rmtree(folder)
