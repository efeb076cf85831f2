"""Handles an empty log folder next to non-empty ones: a new disk, or one that is not mounted.

The folder itself does not tell. So it counts as new only if no partitions are missing. If the disk
is merely not mounted, recreating its partitions would hide all its records. Called by broker.py at
the start.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from floodmark.broker.identity import Identity, own_properties
from floodmark.config.errors import ConfigError
from floodmark.metadata.embedded import FILE_NAME
from floodmark.metadata.image import MetadataImage
from floodmark.storage.errors import StorageError
from floodmark.storage.files import Files
from floodmark.storage.log_dir import FoundPartition
from floodmark.storage.log_manager import LogManager

_NAMED_AT_MOST = 5


def find_metadata_file(files: Files, log_dirs: Sequence[Path]) -> Path:
    """The file's current folder, in whatever order they are listed. A new one goes to the first."""
    candidates = [folder / FILE_NAME for folder in log_dirs]
    return next((file for file in candidates if _is_there(files, file)), candidates[0])


def _is_there(files: Files, file: Path) -> bool:
    try:
        return files.exists(file)
    except OSError:
        # A bad disk costs only its own folder: opening the folders will report it.
        return False


def check_metadata_folder(files: Files, file: Path, logs: LogManager) -> None:
    """Refuses to start without the folder that holds the metadata."""
    folder = file.parent
    if folder in logs.offline_dirs:
        raise StorageError(
            f"{folder} holds the metadata and is unusable: {logs.offline_dirs[folder]}"
        )
    if _is_there(files, file):
        return
    used = [path for path, log_dir in logs.dirs.items() if log_dir.meta is not None]
    absent = [path for path in (*logs.dirs, *logs.offline_dirs) if path not in used]
    if used and absent:
        missing = ", ".join(map(str, absent))
        raise ConfigError(
            f"the metadata is missing: it is not in {', '.join(map(str, used))}, and {missing} is "
            "empty or unreadable",
            name="log.dirs",
            hint=f"Mount the disk of {missing}, or remove it from log.dirs to adopt the rest",
        )


def settle_new_folders(
    logs: LogManager, identity: Identity, image: MetadataImage, found: Iterable[FoundPartition]
) -> None:
    """Marks empty folders as ours, or takes them offline if partitions are missing."""
    found = list(found)
    nameless = [path for path, log_dir in logs.dirs.items() if log_dir.meta is None]
    missing = _missing_partitions(identity.node_id, image, found)
    in_use = {item.log_dir for item in found}
    ours = [path for path in nameless if path in in_use or not missing]
    logs.write_meta_properties({path: own_properties(identity) for path in ours})
    named = ", ".join(missing[:_NAMED_AT_MOST])
    for path in set(nameless) - set(ours):
        logs.fail_dir(
            path,
            f"it is empty, and {len(missing)} partitions are in no other folder ({named}). Mount "
            "its disk, or remove it from log.dirs to recreate them without their records",
        )


def _missing_partitions(
    node_id: int, image: MetadataImage, found: Iterable[FoundPartition]
) -> list[str]:
    there = {(item.topic, item.partition) for item in found}
    return [
        f"{name}-{index}"
        for name, topic in sorted(image.topics.items())
        for index, partition in enumerate(topic.partitions)
        if node_id in partition.replicas and (name, index) not in there
    ]
