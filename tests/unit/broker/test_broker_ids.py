"""Two brokers that were given the same id: the second one does not start, and says why."""

from __future__ import annotations

from pathlib import Path

import pytest

from floodmark.config.errors import ConfigError
from floodmark.metadata import registration
from kit.thread_cluster import Cluster


def test_an_id_that_another_broker_has_is_a_mistake_in_the_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from floodmark.testing import Broker

    monkeypatch.setattr(registration, "LONGEST_WAIT_MS", 100)
    store = {"floodmark.cluster.dir": str(tmp_path / "cluster")}
    cluster = Cluster(tmp_path, store)
    try:
        second = Broker(tmp_path / "second", settings={**store, "node.id": 1})
        with pytest.raises(ConfigError, match="another broker is registered as 1") as caught:
            second.start()
        assert caught.value.hint is not None and "--broker-id" in caught.value.hint
    finally:
        cluster.close()
