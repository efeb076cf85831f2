"""`floodmark.testing.Broker` without pytest's fixtures."""

import gc
import socket
from pathlib import Path
from typing import Any

import pytest

import floodmark.testing
from floodmark.client import Consumer, ConsumerSettings, Producer, TopicPartition
from floodmark.config.errors import ConfigError
from floodmark.testing import Broker


async def produce(broker: Broker, topic: str, value: bytes) -> int:
    async with Producer(broker.bootstrap_servers) as producer:
        return (await producer.send_and_wait(topic, value)).offset


def is_served(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), 5).close()
    except ConnectionRefusedError:
        return False
    return True


def in_folder(folder: Path) -> list[Path]:
    return list(folder.iterdir())


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where this test's temporary folders are made."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


async def test_a_broker_needs_no_folder_and_leaves_none(temporary: Path) -> None:
    with Broker() as broker:
        assert await produce(broker, broker.create_topic(), b"x") == 0
        assert in_folder(temporary)
        address = broker.bootstrap_servers
    assert not in_folder(temporary)
    assert not is_served(address)


async def test_a_broker_is_an_asynchronous_context_manager_as_well(temporary: Path) -> None:
    async with Broker() as broker:
        assert await produce(broker, broker.create_topic(), b"x") == 0
    assert not in_folder(temporary)


async def test_a_broker_that_is_stopped_comes_back_with_port_and_data(temporary: Path) -> None:
    with Broker() as broker:
        topic, address = broker.create_topic(), broker.bootstrap_servers
        assert await produce(broker, topic, b"before") == 0
        broker.stop()
        assert not broker.is_running
        assert broker.bootstrap_servers == address
        assert not is_served(address)
        assert not broker.broker.is_serving
        broker.stop()  # once more does no harm
        broker.start()
        assert broker.bootstrap_servers == address
        assert await produce(broker, topic, b"after") == 1


async def test_a_client_goes_on_when_the_broker_comes_back(temporary: Path) -> None:
    with Broker() as broker:
        topic = broker.create_topic()
        settings = ConsumerSettings(auto_offset_reset="earliest")
        async with (
            Producer(broker.bootstrap_servers) as producer,
            Consumer(broker.bootstrap_servers, settings) as consumer,
        ):
            await consumer.assign([TopicPartition(topic, 0)])
            await producer.send_and_wait(topic, b"1")
            broker.stop()
            delivery = await producer.send(topic, b"2")
            broker.start()
            assert (await delivery).offset == 1
            values: list[bytes | None] = []
            while len(values) < 2:
                for records in (await consumer.poll(1_000)).values():
                    values += [record.value for record in records]
            assert values == [b"1", b"2"]


def test_faults_stay_armed_over_a_restart(temporary: Path) -> None:
    with Broker() as broker:
        broker.faults.fail("PRODUCE", "NOT_ENOUGH_REPLICAS")
        broker.stop()
        broker.start()
        assert broker.broker.dispatch.faults is broker.faults


def test_a_given_folder_is_kept(tmp_path: Path) -> None:
    with Broker(tmp_path / "data") as broker:
        broker.create_topic("kept")
    with Broker(str(tmp_path / "data")) as broker:
        assert "kept" in broker.broker.metadata.image.topics


async def test_a_broker_that_runs_is_not_collected(temporary: Path) -> None:
    """Its folder would go with it."""
    address = Broker().start().bootstrap_servers
    gc.collect()
    assert in_folder(temporary)
    async with Producer(address) as producer:
        assert (await producer.send_and_wait("t", b"x")).offset == 0
    (broker,) = (found for found in gc.get_objects() if type(found) is Broker)
    broker.close()


def test_a_forgotten_broker_takes_its_folder_along(temporary: Path) -> None:
    broker = Broker().start()
    broker.stop()
    assert in_folder(temporary)
    del broker
    gc.collect()
    assert not in_folder(temporary)


def test_what_is_wrong_with_the_arguments_is_said(temporary: Path) -> None:
    wrong: Any = {"num.partitions": 3}
    with pytest.raises(TypeError, match=r"Broker\(settings=\{\.\.\.\}\)"):
        Broker(wrong)
    with pytest.raises(TypeError, match=r"log\.dirs is a list.*commas"):
        Broker(settings={"log.dirs": ["a", "b"]})  # type: ignore[dict-item]
    with pytest.raises(
        ConfigError, match=r"unknown setting num\.partitons: did you mean num\.partitions"
    ):
        Broker(settings={"num.partitons": 3})
    with pytest.raises(ConfigError, match=r"num\.partitions"):
        Broker(settings={"num.partitions": 0})
    assert not in_folder(temporary)


def test_a_broker_that_does_not_run_says_so(temporary: Path) -> None:
    broker = Broker()
    with pytest.raises(RuntimeError, match=r"has not been started: use `with`"):
        _ = broker.bootstrap_servers
    with pytest.raises(RuntimeError, match=r"not running: use `with`"):
        broker.create_topic()
    with broker, pytest.raises(RuntimeError, match="already running"):
        broker.start()


def test_a_start_that_fails_can_be_repeated(temporary: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        broker = Broker(settings={"listeners": f"PLAINTEXT://127.0.0.1:{port}"})
        with pytest.raises(OSError, match="in use"):
            broker.start()
    with broker:
        assert broker.bootstrap_servers == f"127.0.0.1:{port}"


def test_every_public_name_of_the_kit_can_be_loaded() -> None:
    for name in floodmark.testing.__all__:
        assert getattr(floodmark.testing, name).__name__ == name
    with pytest.raises(AttributeError, match="no attribute 'Nonsense'"):
        _ = floodmark.testing.Nonsense
