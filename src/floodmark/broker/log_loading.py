"""Opens this broker's logs at the start, once the image says which of them count.

Called by broker.py with the first image.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from floodmark.broker.identity import Identity
from floodmark.broker.new_folders import settle_new_folders
from floodmark.clock import Clock
from floodmark.metadata.image import MetadataImage
from floodmark.storage.log_config import LogConfig
from floodmark.storage.log_dir import FoundPartition
from floodmark.storage.log_manager import LogManager

logger = logging.getLogger(__name__)

PROGRESS_INTERVAL_S: Final = 2.0
"""A slow start logs its progress this often."""


async def load_logs(
    logs: LogManager,
    found: list[FoundPartition],
    identity: Identity,
    image: MetadataImage,
    log_config: Callable[[str], LogConfig],
    clock: Clock,
) -> None:
    """Opens the logs the cluster knows.

    Sets folders of deleted topics aside, even if a current topic has the same name. Leaves unknown
    folders without a topic id alone.
    """
    topic_ids = {None} | {topic.topic_id for topic in image.topics.values()}
    strays = [folder for folder in found if folder.topic_id not in topic_ids]
    await asyncio.to_thread(logs.set_aside, strays)
    found = [folder for folder in found if folder.topic_id in topic_ids]
    settle_new_folders(logs, identity, image, found)
    known = [folder for folder in found if _is_known(folder, image)]
    if not logs.was_clean and known:
        logger.warning("the last shutdown was not clean: checking the ends of %d logs", len(known))
    began_ms = clock.monotonic_ms()
    loading = asyncio.create_task(asyncio.to_thread(logs.load, known, log_config, clock.now_ms()))
    while not (await asyncio.wait([loading], timeout=PROGRESS_INTERVAL_S))[0]:
        logger.info(
            "opened %d of %d logs after %.0f s",
            len(logs.logs()),
            len(known),
            (clock.monotonic_ms() - began_ms) / 1000,
        )
    await loading


def _is_known(folder: FoundPartition, image: MetadataImage) -> bool:
    return image.partition(folder.topic, folder.partition) is not None and folder.topic_id in (
        None,
        image.topics[folder.topic].topic_id,
    )
