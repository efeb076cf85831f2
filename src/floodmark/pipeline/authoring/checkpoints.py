"""The folder of a pipeline's checkpoints, and whose it is.

Called by the runner, `status` and `reset`. Each output has a folder of its own inside, which is
Spark's; the file beside them names the pipeline and gives it an id that lasts until a reset.
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
        """A file beside Spark's own, which goes with them."""
        return str(Path(self.of_output(output)) / f"topic-ids-{source}.json")

    def query_name(self, output: str) -> str:
        """Names the marks of a sink: the same after a restart, another after a reset."""
        return f"{self.pipeline}.{output}.{self.run_id}"

    def outputs(self) -> list[str]:
        return sorted(p.name for p in self.folder.iterdir() if (p / "metadata").exists())

    def last_planned(self, output: str) -> int | None:
        """The last batch that was begun; it may not be complete."""
        return _last_number(self.folder / output / "offsets")

    def last_batch(self, output: str) -> tuple[int, dict[str, dict[str, int]]] | None:
        """The last batch that is complete, and the offsets of all its sources."""
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
    """As `open_checkpoint`, with others kept out: nothing of a pipeline that runs is changed."""
    _check(folder, pipeline)
    folder.mkdir(parents=True, exist_ok=True)
    with _locked(folder, pipeline):
        yield open_checkpoint(folder, pipeline, bootstrap_server)


def open_checkpoint(folder: Path, pipeline: str, bootstrap_server: str) -> Checkpoint:
    """The checkpoint for this pipeline; a new one where there is none."""
    known = _check(folder, pipeline)
    run_id = uuid.uuid4().hex[:8] if known is None else known.run_id
    checkpoint = Checkpoint(folder, pipeline, run_id, bootstrap_server)
    if checkpoint != known:
        _write(checkpoint)
    return checkpoint


def _check(folder: Path, pipeline: str) -> Checkpoint | None:
    """What is there already, if this pipeline may use it."""
    if folder.parts and folder.parts[0].endswith(":"):
        raise PipelineError(
            f"{folder} is no folder of this machine, which a checkpoint must be in: mount it, on a "
            "cluster on all machines"
        )
    known = read_checkpoint(folder)
    if known is None:
        # A first run may have ended before its checkpoint had a name.
        unfinished = {LOCK_FILE, IDENTITY_FILE + TEMPORARY_SUFFIX}
        if folder.exists() and any(path.name not in unfinished for path in folder.iterdir()):
            raise PipelineError(
                f"{folder} is not empty and no checkpoint of ours: name another by --checkpoint"
            )
    elif known.pipeline != pipeline:
        raise PipelineError(
            f"{folder} is the checkpoint of pipeline {known.pipeline}, not of {pipeline}: name "
            f"another by --checkpoint, or reset it with `floodmark pipeline reset {known.pipeline}`"
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
    """Keeps others out for the length of a block, and for no longer than this process lives."""
    with _locked(checkpoint.folder, checkpoint.pipeline):
        yield


@contextmanager
def _locked(folder: Path, pipeline: str) -> Iterator[None]:
    with (folder / LOCK_FILE).open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise PipelineError(
                f"pipeline {pipeline} is running with the checkpoint {folder}: stop it first, or "
                "name another folder by --checkpoint"
            ) from None
        except OSError as error:
            raise PipelineError(
                f"the checkpoint {folder} cannot be locked ({error.strerror}), so that a second "
                "run could not be kept out: name a folder by --checkpoint whose file system has "
                "locks"
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
