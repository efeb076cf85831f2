"""A topic that is made anew under a running query is known by its id."""

import uuid
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from floodmark.client.view import TopicPartition
from floodmark.pipeline.errors import DataLossError
from floodmark.pipeline.options import parse_read_options
from floodmark.pipeline.source import _StreamDriver


class PlannerOfOneTopic:
    """Ten records, before and after the topic is made anew."""

    def __init__(self, _options: object) -> None:
        self.topic_id = uuid.uuid4()
        view = SimpleNamespace(topic_id=lambda _topic: self.topic_id)
        self.cluster = SimpleNamespace(view=view)

    async def partitions(self) -> list[TopicPartition]:
        return [TopicPartition("t", 0)]

    async def offsets(
        self, partitions: list[TopicPartition], _spec: object
    ) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, 10)

    async def close(self) -> None:
        """Nothing is open."""


@pytest.fixture(params=["true", "false"])
def driver(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[_StreamDriver]:
    monkeypatch.setattr("floodmark.pipeline.source.Planner", PlannerOfOneTopic)
    options = {"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "t"}
    options["failOnDataLoss"] = request.param
    driver = _StreamDriver(parse_read_options(options, streaming=True))
    yield driver
    driver.close()


def test_another_id_is_data_loss_though_all_offsets_are_there(driver: _StreamDriver) -> None:
    stands = {"t": {"0": 10}}
    assert driver.latest(stands, limited=False) == stands
    assert driver.latest(stands, limited=False) == stands
    assert isinstance(driver._planner, PlannerOfOneTopic)
    driver._planner.topic_id = uuid.uuid4()
    if driver._options.fail_on_data_loss:
        with pytest.raises(DataLossError, match="topic t was deleted and made anew while"):
            driver.latest(stands, limited=False)
    else:
        assert driver.latest(stands, limited=False) == stands
