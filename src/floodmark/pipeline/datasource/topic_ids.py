"""The ids of the topics a query has read.

A topic that was deleted and recreated counts its offsets from zero again. The query's offsets would
then refer to other records and skip the first ones. A checkpoint has the connector's format, which
has no ids; a file next to it does. Called by `source.py` on the driver.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from uuid import UUID

from floodmark.pipeline.errors import PipelineError
from floodmark.pipeline.spark.atomic_files import write_whole
from floodmark.wire.schema import ZERO_UUID


class TopicIds:
    """Without a path, ids are kept only while the query runs."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._known = {} if path is None or not path.exists() else _read(path)

    def recreated(self, topic_ids: Mapping[str, UUID]) -> list[str]:
        """The topics that have another id than before."""
        return sorted(
            topic
            for topic, topic_id in topic_ids.items()
            # Brokers before Kafka 2.8 have no ids.
            if topic_id not in (ZERO_UUID, self._known.get(topic, topic_id))
        )

    def keep(self, topic_ids: Mapping[str, UUID]) -> None:
        found = {topic: i for topic, i in topic_ids.items() if i != ZERO_UUID}
        known = {**self._known, **found}
        if known == self._known:
            return
        self._known = known
        if self._path is not None:
            document = {topic: str(known[topic]) for topic in sorted(known)}
            write_whole(self._path, json.dumps(document, indent=2) + "\n")


def _read(path: Path) -> dict[str, UUID]:
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        return {topic: UUID(topic_id) for topic, topic_id in document.items()}
    except (ValueError, AttributeError) as error:
        raise PipelineError(
            f"{path} is damaged ({error}): restore it, or remove it if no topic was recreated"
        ) from error
