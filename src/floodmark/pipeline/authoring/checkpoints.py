"""The folder of a pipeline's checkpoints, and its owner.

Called by the runner, `status` and `reset`. Each output has a folder inside, which belongs to Spark.
A file next to them names the pipeline and gives it an id that lasts until a reset. The folder is on
this machine, or on any file system of Spark's (`atomic_files.open_folder`).
"""

from __future__ import annotations

import fcntl
import json
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from floodmark.pipeline.authoring.leases import Lease
from floodmark.pipeline.authoring.replays import positions_of, read_record
from floodmark.pipeline.datasource.offsets import Positions, topics_in
from floodmark.pipeline.errors import PipelineError
from floodmark.pipeline.spark.atomic_files import (
    TEMPORARY_SUFFIX,
    AnyPath,
    remove_tree,
    write_whole,
)
from floodmark.pipeline.spark.hadoop_paths import HadoopPath

IDENTITY_FILE = "pipeline.json"
LOCK_FILE = "lock"
DEFAULT_FOLDER = ".floodmark"


@dataclass(frozen=True)
class Checkpoint:
    folder: AnyPath
    pipeline: str
    run_id: str
    bootstrap_server: str
    # Only while it is held, and only for a folder that is not on this machine.
    lease: Lease | None = field(default=None, compare=False)
    scratch: Path | None = field(default=None, compare=False)

    def of_output(self, name: str) -> str:
        folder = self.folder / name
        return str(folder if isinstance(folder, HadoopPath) else folder.resolve())

    def spark_location(self, name: str) -> str:
        """The same for Spark, for which a bare path would be on its default file system."""
        folder = self.of_output(name)
        return folder if isinstance(self.folder, HadoopPath) else f"file://{folder}"

    def topic_ids_of(self, output: str, source: str) -> str:
        """A file next to Spark's own, which is removed with them.

        The source's own process can only use local files, so one elsewhere is copied:
        `save_topic_ids` copies it back.
        """
        name = f"topic-ids-{source}.json"
        if self.scratch is None:
            return str(Path(self.of_output(output)) / name)
        local = self.scratch / output / name
        remote = self.folder / output / name
        if not local.exists() and remote.exists():
            write_whole(local, remote.read_text(encoding="utf-8"))
        return str(local)

    def save_topic_ids(self, saved: dict[str, str]) -> None:
        """Copies the files of `topic_ids_of` that differ from what was `saved` before."""
        if self.scratch is None:
            return
        for local in self.scratch.glob("*/topic-ids-*.json"):
            name = f"{local.parent.name}/{local.name}"
            text = local.read_text(encoding="utf-8")
            if saved.get(name) != text:
                write_whole(self.folder / name, text)
                saved[name] = text

    def check_held(self) -> None:
        """Raises if another run may use the checkpoint now."""
        if self.lease is not None:
            self.lease.check()

    def query_name(self, output: str) -> str:
        """The name of a sink's marks: the same after a restart, another after a reset or replay."""
        generation = read_record(self.folder, output).generation
        name = f"{self.pipeline}.{output}.{self.run_id}"
        return f"{name}.{generation}" if generation else name

    def replayed_from(self, output: str) -> Positions | None:
        """Where a replay starts this output, if there was one."""
        return positions_of(read_record(self.folder, output))

    def outputs(self) -> list[str]:
        return sorted(p.name for p in self.folder.iterdir() if (p / "metadata").exists())

    def last_planned(self, output: str) -> int | None:
        """The last batch that was started. It may not be complete."""
        return _last_number(self.folder / output / "offsets")

    def plan(self, output: str, batch: int) -> list[str]:
        """The lines of a planned batch: its version and settings, then a line for each stream."""
        path = self.folder / output / "offsets" / str(batch)
        return path.read_text(encoding="utf-8").splitlines()

    def last_batch(self, output: str) -> tuple[int, dict[str, dict[str, int]]] | None:
        """The last complete batch, and the offsets of all its sources."""
        done = _last_number(self.folder / output / "commits")
        if done is None:
            return None
        offsets: dict[str, dict[str, int]] = {}
        for line in self.plan(output, done)[2:]:
            document = json.loads(line) if line.startswith("{") else None
            for topic, partitions in topics_in(document).items():
                offsets.setdefault(topic, {}).update(partitions)
        return done, offsets


@contextmanager
def held_checkpoint(folder: AnyPath, pipeline: str, bootstrap_server: str) -> Iterator[Checkpoint]:
    """Like `open_checkpoint`, but locked: a running pipeline's checkpoint is never changed."""
    _check(folder, pipeline)
    folder.mkdir(parents=True, exist_ok=True)
    if not isinstance(folder, HadoopPath):
        with _locked(folder, pipeline):
            yield open_checkpoint(folder, pipeline, bootstrap_server)
        return
    with (
        _leased(folder, pipeline) as lease,
        tempfile.TemporaryDirectory(prefix="floodmark-checkpoint-") as scratch,
    ):
        checkpoint = open_checkpoint(folder, pipeline, bootstrap_server)
        yield replace(checkpoint, lease=lease, scratch=Path(scratch))


def open_checkpoint(folder: AnyPath, pipeline: str, bootstrap_server: str) -> Checkpoint:
    """This pipeline's checkpoint. Creates one if there is none."""
    known = _check(folder, pipeline)
    run_id = uuid.uuid4().hex[:8] if known is None else known.run_id
    checkpoint = Checkpoint(folder, pipeline, run_id, bootstrap_server)
    if checkpoint != known:
        _write(checkpoint)
    return checkpoint


def _check(folder: AnyPath, pipeline: str) -> Checkpoint | None:
    """The existing checkpoint, if this pipeline may use it."""
    known = read_checkpoint(folder)
    if known is None:
        # A first run may have ended before its checkpoint was named.
        unfinished = {LOCK_FILE, IDENTITY_FILE + TEMPORARY_SUFFIX}
        if folder.exists() and any(
            path.name not in unfinished and not path.name.startswith(f".{IDENTITY_FILE}")
            for path in folder.iterdir()
        ):
            raise PipelineError(
                f"{folder} is not empty and not a Floodmark checkpoint: choose another "
                "with --checkpoint"
            )
    elif known.pipeline != pipeline:
        raise PipelineError(
            f"{folder} is the checkpoint of pipeline {known.pipeline}, not of {pipeline}: choose "
            f"another with --checkpoint, or reset with `floodmark pipeline reset {known.pipeline}`"
        )
    return known


def read_checkpoint(folder: AnyPath) -> Checkpoint | None:
    path = folder / IDENTITY_FILE
    if not path.exists():
        return None
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        return Checkpoint(
            folder, document["pipeline"], document["id"], document["bootstrap_server"]
        )
    except (ValueError, KeyError, TypeError) as error:
        raise PipelineError(f"{path} is damaged ({error}): restore it, or reset") from error


@contextmanager
def held(checkpoint: Checkpoint) -> Iterator[None]:
    """Locks the checkpoint for a block, at most as long as this process lives."""
    if isinstance(checkpoint.folder, HadoopPath):
        with _leased(checkpoint.folder, checkpoint.pipeline):
            yield
    else:
        with _locked(checkpoint.folder, checkpoint.pipeline):
            yield


@contextmanager
def _leased(folder: HadoopPath, pipeline: str) -> Iterator[Lease]:
    lease = Lease(folder / LOCK_FILE, pipeline)
    lease.acquire()
    try:
        yield lease
    finally:
        lease.release()


@contextmanager
def _locked(folder: Path, pipeline: str) -> Iterator[None]:
    with (folder / LOCK_FILE).open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise PipelineError(
                f"pipeline {pipeline} is already running with the checkpoint {folder}: stop it "
                "first, or choose another folder with --checkpoint"
            ) from None
        except OSError as error:
            raise PipelineError(
                f"the checkpoint {folder} cannot be locked ({error.strerror}), so a second run "
                "could not be prevented: use --checkpoint with a folder on a file system that "
                "supports locks"
            ) from error
        yield


def find_checkpoints(folder: AnyPath) -> list[Checkpoint]:
    """All pipelines that have run with the default folder."""
    if not folder.exists():
        return []
    inside: list[AnyPath] = [*folder.iterdir()]
    inside.sort(key=lambda path: path.name)
    found = [read_checkpoint(path) for path in inside if path.is_dir()]
    return [checkpoint for checkpoint in found if checkpoint is not None]


def remove(checkpoint: Checkpoint) -> None:
    remove_tree(checkpoint.folder)


def remove_output(checkpoint: Checkpoint, output: str) -> None:
    """Removes the position and state of one output, if it has any."""
    folder = checkpoint.folder / output
    if folder.exists():
        remove_tree(folder)


def existing_checkpoint(folder: AnyPath, pipeline: str) -> Checkpoint | None:
    """This pipeline's checkpoint, if there is one. Creates nothing."""
    return _check(folder, pipeline)


def _write(checkpoint: Checkpoint) -> None:
    document = {
        "pipeline": checkpoint.pipeline,
        "id": checkpoint.run_id,
        "bootstrap_server": checkpoint.bootstrap_server,
    }
    text = json.dumps(document, indent=2) + "\n"
    write_whole(checkpoint.folder / IDENTITY_FILE, text)


def _last_number(folder: AnyPath) -> int | None:
    if not folder.exists():
        return None
    return max((int(p.name) for p in folder.iterdir() if p.name.isdigit()), default=None)
