"""The folder of a pipeline's checkpoints, and its owner.

Called by the runner, `status` and `reset`. Each output has a folder inside, which belongs to Spark.
A file next to them names the pipeline and gives it an id that lasts until a reset.
"""

from __future__ import annotations

import fcntl
import json
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from floodmark.pipeline.authoring.atomic_files import TEMPORARY_SUFFIX, write_whole
from floodmark.pipeline.datasource.offsets import topics_in
from floodmark.pipeline.errors import PipelineError

IDENTITY_FILE = "pipeline.json"
LOCK_FILE = "lock"
DEFAULT_FOLDER = ".floodmark"


@dataclass(frozen=True)
class Checkpoint:
    folder: Path
    pipeline: str
    run_id: str
    bootstrap_server: str

    def of_output(self, name: str) -> str:
        return str((self.folder / name).resolve())

    def topic_ids_of(self, output: str, source: str) -> str:
        """A file next to Spark's own, which is removed with them."""
        return str(Path(self.of_output(output)) / f"topic-ids-{source}.json")

    def query_name(self, output: str) -> str:
        """The name of a sink's marks: the same after a restart, another after a reset."""
        return f"{self.pipeline}.{output}.{self.run_id}"

    def outputs(self) -> list[str]:
        return sorted(p.name for p in self.folder.iterdir() if (p / "metadata").exists())

    def last_planned(self, output: str) -> int | None:
        """The last batch that was started. It may not be complete."""
        return _last_number(self.folder / output / "offsets")

    def last_batch(self, output: str) -> tuple[int, dict[str, dict[str, int]]] | None:
        """The last complete batch, and the offsets of all its sources."""
        done = _last_number(self.folder / output / "commits")
        if done is None:
            return None
        offsets: dict[str, dict[str, int]] = {}
        lines = (self.folder / output / "offsets" / str(done)).read_text().splitlines()
        for line in lines[2:]:
            document = json.loads(line) if line.startswith("{") else None
            for topic, partitions in topics_in(document).items():
                offsets.setdefault(topic, {}).update(partitions)
        return done, offsets


@contextmanager
def held_checkpoint(folder: Path, pipeline: str, bootstrap_server: str) -> Iterator[Checkpoint]:
    """Like `open_checkpoint`, but locked: a running pipeline's checkpoint is never changed."""
    _check(folder, pipeline)
    folder.mkdir(parents=True, exist_ok=True)
    with _locked(folder, pipeline):
        yield open_checkpoint(folder, pipeline, bootstrap_server)


def open_checkpoint(folder: Path, pipeline: str, bootstrap_server: str) -> Checkpoint:
    """This pipeline's checkpoint. Creates one if there is none."""
    known = _check(folder, pipeline)
    run_id = uuid.uuid4().hex[:8] if known is None else known.run_id
    checkpoint = Checkpoint(folder, pipeline, run_id, bootstrap_server)
    if checkpoint != known:
        _write(checkpoint)
    return checkpoint


def _check(folder: Path, pipeline: str) -> Checkpoint | None:
    """The existing checkpoint, if this pipeline may use it."""
    if folder.parts and folder.parts[0].endswith(":"):
        raise PipelineError(
            f"{folder} is not a local folder, which a checkpoint needs: mount it, on a cluster "
            "on all machines"
        )
    known = read_checkpoint(folder)
    if known is None:
        # A first run may have ended before its checkpoint was named.
        unfinished = {LOCK_FILE, IDENTITY_FILE + TEMPORARY_SUFFIX}
        if folder.exists() and any(path.name not in unfinished for path in folder.iterdir()):
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


def read_checkpoint(folder: Path) -> Checkpoint | None:
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
    with _locked(checkpoint.folder, checkpoint.pipeline):
        yield


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


def find_checkpoints(folder: Path) -> list[Checkpoint]:
    """All pipelines that have run with the default folder."""
    if not folder.exists():
        return []
    found = [read_checkpoint(path) for path in sorted(folder.iterdir()) if path.is_dir()]
    return [checkpoint for checkpoint in found if checkpoint is not None]


def remove(checkpoint: Checkpoint) -> None:
    shutil.rmtree(checkpoint.folder)


def _write(checkpoint: Checkpoint) -> None:
    document = {
        "pipeline": checkpoint.pipeline,
        "id": checkpoint.run_id,
        "bootstrap_server": checkpoint.bootstrap_server,
    }
    text = json.dumps(document, indent=2) + "\n"
    write_whole(checkpoint.folder / IDENTITY_FILE, text)


def _last_number(folder: Path) -> int | None:
    if not folder.exists():
        return None
    return max((int(p.name) for p in folder.iterdir() if p.name.isdigit()), default=None)
