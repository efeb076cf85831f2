"""A topic that is recreated under a query, or while it was down, is recognized by its id."""

import asyncio
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from floodmark.client.cluster.cluster import Cluster
from floodmark.client.cluster.view import TopicPartition
from floodmark.pipeline.datasource.options import parse_read_options
from floodmark.pipeline.datasource.planning import OffsetRange, range_of, split_ranges
from floodmark.pipeline.datasource.reading import read_range
from floodmark.pipeline.datasource.source import _StreamDriver
from floodmark.pipeline.errors import DataLossError, PipelineError
from floodmark.testing import Broker
from kit.topics import delete_topic, fill_topic, make_topic


class PlannerOfOneTopic:
    """Ten records, before and after the topic is recreated."""

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
    monkeypatch.setattr("floodmark.pipeline.datasource.source.Planner", PlannerOfOneTopic)
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
        with pytest.raises(DataLossError, match="topic t was deleted and recreated"):
            driver.latest(stands, limited=False)
    else:
        assert driver.latest(stands, limited=False) == stands


Starts = Callable[..., _StreamDriver]


@pytest.fixture
def starts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Starts]:
    """A query that is started with the same checkpoint again and again."""
    monkeypatch.setattr("floodmark.pipeline.datasource.source.Planner", PlannerOfOneTopic)
    drivers = []

    def start(topic_id: uuid.UUID, **options: str) -> _StreamDriver:
        options |= {
            "kafka.bootstrap.servers": "127.0.0.1:1",
            "subscribe": "t",
            "topicIdsFile": str(tmp_path / "new folder" / "ids.json"),
        }
        driver = _StreamDriver(parse_read_options(options, streaming=True))
        assert isinstance(driver._planner, PlannerOfOneTopic)
        driver._planner.topic_id = topic_id
        drivers.append(driver)
        return driver

    yield start
    for driver in drivers:
        driver.close()


STANDS = {"t": {"0": 10}}
OLD_ID, NEW_ID = uuid.uuid4(), uuid.uuid4()


def test_another_id_than_that_of_an_earlier_run_is_data_loss(starts: Starts) -> None:
    starts(OLD_ID).fix_target()
    assert starts(OLD_ID).latest(STANDS, limited=False) == STANDS
    for _ in range(2):
        with pytest.raises(DataLossError, match="topic t was deleted and recreated"):
            starts(NEW_ID).latest(STANDS, limited=False)
    assert starts(OLD_ID).latest(STANDS, limited=False) == STANDS


def test_another_id_is_seen_before_the_batch_under_way_is_read_again(starts: Starts) -> None:
    starts(OLD_ID).fix_target()
    with pytest.raises(DataLossError, match="topic t was deleted and recreated"):
        starts(NEW_ID).ranges({"t": {"0": 5}}, STANDS)
    assert len(starts(OLD_ID).ranges({"t": {"0": 5}}, STANDS)) == 1


def test_a_query_that_may_lose_data_goes_on_with_the_new_topic(starts: Starts) -> None:
    starts(OLD_ID).fix_target()
    assert starts(NEW_ID, failOnDataLoss="false").latest(STANDS, limited=False) == STANDS
    assert starts(NEW_ID).latest(STANDS, limited=False) == STANDS


def test_a_broker_that_knows_no_ids_is_not_accused(starts: Starts) -> None:
    for topic_id in (uuid.UUID(int=0), OLD_ID, uuid.UUID(int=0), OLD_ID):
        assert starts(topic_id).latest(STANDS, limited=False) == STANDS


def test_a_damaged_file_of_ids_is_told_of(starts: Starts, tmp_path: Path) -> None:
    starts(OLD_ID).fix_target()
    (tmp_path / "new folder" / "ids.json").write_text("{")
    with pytest.raises(PipelineError, match=r"ids\.json is damaged"):
        starts(OLD_ID)


@pytest.fixture
def recreated() -> Iterator[tuple[str, OffsetRange]]:
    """A broker's address, and a read of a topic that was recreated since."""
    with Broker() as broker:
        address = broker.bootstrap_servers
        make_topic(address, "t")
        planned = asyncio.run(planned_read(address))
        delete_topic(address, "t")
        make_topic(address, "t")
        fill_topic(address, "t", [(None, b"another")])
        yield address, planned


async def planned_read(address: str) -> OffsetRange:
    async with Cluster(address) as cluster:
        return range_of(await cluster.topics_of(["t"]), TopicPartition("t", 0), 0, 1)


def values_of(address: str, wanted: OffsetRange, **options: str) -> list[bytes]:
    options |= {"kafka.bootstrap.servers": address, "subscribe": "t"}
    found = read_range(parse_read_options(options, streaming=True), wanted)
    return [value for batch in found for value in batch.column("value").to_pylist()]


def test_a_topic_that_is_recreated_before_a_task_begins_is_data_loss(
    recreated: tuple[str, OffsetRange],
) -> None:
    address, planned = recreated
    with pytest.raises(DataLossError, match="topic t was deleted and recreated"):
        values_of(address, planned)
    assert values_of(address, planned, failOnDataLoss="false") == [b"another"]
    (piece, *_others) = split_ranges([planned], min_partitions=4, max_records=None)
    assert piece.topic_id == planned.topic_id
