"""Paths on any file system that Spark's Hadoop knows (`s3a://`, `hdfs://`), used like `pathlib`.

Called by `checkpoints.py` and its helpers through `open_folder`. Small files are written by Spark's
own checkpoint file manager, so they are as atomic as Spark's offsets: a rename where the file
system has an atomic one (HDFS), otherwise whatever
`spark.sql.streaming.checkpointFileManagerClass` names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from floodmark.pipeline.errors import PipelineError, short_text

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ADDRESS = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]+):/(?P<rest>.*)")
_MISSING = "java.io.FileNotFoundException"


def is_remote(text: str) -> bool:
    """Whether Spark's file systems are needed for it, rather than this machine's folders."""
    found = _ADDRESS.fullmatch(text)
    return found is not None and found["scheme"].lower() != "file"


def local_path(text: str) -> Path:
    """A folder of this machine, which may be given as `file:///folder`."""
    found = _ADDRESS.fullmatch(text)
    return Path(text) if found is None else Path("/" + found["rest"].lstrip("/"))


class HadoopPath:
    """The part of `pathlib.Path` that checkpoints need."""

    def __init__(self, text: str, spark: SparkSession) -> None:
        self._text = text.rstrip("/")
        self._spark = spark
        context: Any = spark.sparkContext
        self._jvm = context._jvm
        with self._explained():
            self._path = self._jvm.org.apache.hadoop.fs.Path(self._text)
            settings = spark_hadoop_settings(spark)
            self._files = self._path.getFileSystem(settings)
            self._settings = settings

    def __truediv__(self, name: str) -> HadoopPath:
        return HadoopPath(f"{self._text}/{name}", self._spark)

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return f"HadoopPath({self._text!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, HadoopPath) and other._text == self._text

    def __hash__(self) -> int:
        return hash(self._text)

    @property
    def name(self) -> str:
        return self._text.rpartition("/")[2]

    def exists(self) -> bool:
        with self._explained():
            return bool(self._files.exists(self._path))

    def is_dir(self) -> bool:
        status = self._status()
        return status is not None and bool(status.isDirectory())

    def iterdir(self) -> Iterator[HadoopPath]:
        """Yields nothing for a missing folder: object stores have no empty ones."""
        try:
            with self._explained():
                found = [
                    status.getPath().getName() for status in self._files.listStatus(self._path)
                ]
        except FileNotFoundError:
            return
        for name in found:
            yield self / name

    def mkdir(self, parents: bool = True, exist_ok: bool = True) -> None:
        with self._explained():
            self._files.mkdirs(self._path)

    def read_text(self, encoding: str = "utf-8") -> str:
        with self._explained():
            stream = self._files.open(self._path)
            try:
                return bytes(stream.readAllBytes()).decode(encoding)
            finally:
                stream.close()

    def write_whole(self, text: str) -> None:
        """Readers see the old or the new content. Creates missing folders."""
        try:
            self._replace(text)
        except FileNotFoundError:
            with self._explained():
                self._files.mkdirs(self._path.getParent())
            self._replace(text)

    def _replace(self, text: str) -> None:
        with self._explained():
            stream = self._manager().createAtomic(self._path, True)
            # A stream that is never closed leaves a temporary file at most.
            stream.write(bytearray(text.encode("utf-8")))
            stream.close()

    def modified_ms(self) -> int:
        status = self._status()
        if status is None:
            raise FileNotFoundError(self._text)
        return int(status.getModificationTime())

    def remove(self) -> None:
        """Removes a file, or a folder with all its contents. Ignores a missing one."""
        with self._explained():
            self._files.delete(self._path, True)

    def _status(self) -> Any:
        try:
            with self._explained():
                return self._files.getFileStatus(self._path)
        except FileNotFoundError:
            return None

    def _manager(self) -> Any:
        parent = self._path.getParent()
        streaming = self._jvm.org.apache.spark.sql.execution.streaming
        return streaming.checkpointing.CheckpointFileManager.create(parent, self._settings)

    @contextmanager
    def _explained(self) -> Iterator[None]:
        # Imported late: the command line loads this file where there is no PySpark.
        from py4j.protocol import Py4JJavaError

        try:
            yield
        except Py4JJavaError as error:
            if error.java_exception.getClass().getName() == _MISSING:
                raise FileNotFoundError(self._text) from error
            raise PipelineError(
                f"Spark cannot use {self._text}: {short_text(error)}. Check the address and its "
                "credentials; a file system that Spark lacks needs its jar, with --conf "
                "spark.jars.packages or spark.jars"
            ) from error


def spark_hadoop_settings(spark: SparkSession) -> Any:
    """Hadoop's settings with those of the session, as Spark's own streams see them."""
    session: Any = spark
    return session._jsparkSession.sessionState().newHadoopConf()
