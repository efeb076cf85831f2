"""Which topics a query has read, by their ids.

A topic that was deleted and made anew counts its offsets from zero again: those of the query would
stand for other records, and pass over the first ones. A checkpoint has the form of the connector's,
which keeps no ids; a file beside it does. Called by `source.py` on the driver.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from uuid import UUID

from floodmark.pipeline.authoring.atomic_files import write_whole
from floodmark.pipeline.errors import PipelineError
from floodmark.wire.schema import ZERO_UUID


class TopicIds:
    """Without a path they are known for as long as the query runs."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._known = {} if path is None or not path.exists() else _read(path)

    def made_anew(self, topic_ids: Mapping[str, UUID]) -> list[str]:
        """The topics that have other ids now."""
        return sorted(
            topic
            for topic, topic_id in topic_ids.items()
            # Brokers from before Kafka 2.8 know no ids.
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
            f"{path} is damaged ({error}): restore it, or remove it, if no topic was made anew"
        ) from error
