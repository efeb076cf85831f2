"""The folder shared by the brokers of a local cluster, before any of them serves."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from uuid import uuid4

from floodmark.metadata import paths
from floodmark.metadata.shared_table import SharedTable
from floodmark.metadata.store import Create, NodeExists

CLUSTER_FILE_NAME = "cluster-metadata.db"


def founded_cluster_id(file: Path) -> str:
    """The id of the cluster in this folder. Creates one for a new cluster.

    Brokers that start together thus agree on it before they write it into their log folders.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    table = SharedTable(str(file))
    try:
        new = paths.encode_cluster_id(paths.encode_id(uuid4()))
        with suppress(NodeExists):
            table.found([Create("/cluster"), Create(paths.CLUSTER_ID, new)])
        node = table.get(paths.CLUSTER_ID)
        assert node is not None
        return paths.decode_cluster_id(node.data)
    finally:
        table.close()
