"""Which Python a data source gets that is registered with a user's own session."""

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from floodmark.pipeline.datasource.source import FloodmarkSource
from floodmark.pipeline.spark import registration


class FakeSession:
    """Notes what is registered, and with which command."""

    def __init__(self, master: str) -> None:
        self.sparkContext = SimpleNamespace(master=master, pythonExec="python3")
        self.registered: list[tuple[type, str]] = []
        self.dataSource = FakeRegistration(self)


class FakeRegistration:
    def __init__(self, session: Any) -> None:
        self._session = session

    def register(self, source: type) -> None:
        self._session.registered.append((source, self._session.sparkContext.pythonExec))


@pytest.fixture(autouse=True)
def no_spark(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    files = SimpleNamespace(getRootDirectory=lambda: str(tmp_path))
    monkeypatch.setattr(registration, "SparkFiles", files)
    monkeypatch.setattr(registration, "DataSourceRegistration", FakeRegistration)


def python_of(master: str, environment: dict[str, str]) -> str:
    session: Any = FakeSession(master)
    registration.register_source(session, environment)
    [(source, python)] = session.registered
    assert source is FloodmarkSource
    assert session.sparkContext.pythonExec == "python3"
    return str(python)


@pytest.mark.parametrize("master", ["local", "local[2]", "local[*, 3]"])
def test_a_local_session_starts_the_source_through_the_launcher(
    master: str, tmp_path: Path
) -> None:
    launcher = str(tmp_path / "floodmark-python")
    assert python_of(master, {}) == launcher
    assert python_of(master, {"PYSPARK_PYTHON": sys.executable}) == launcher


@pytest.mark.parametrize("master", ["spark://host:7077", "yarn", "k8s://https://host"])
def test_a_cluster_keeps_its_own_python(master: str) -> None:
    assert python_of(master, {}) == "python3"


@pytest.mark.parametrize("named", ["/bin/sh", "no-such-python"])
def test_a_python_that_the_user_named_is_kept(named: str) -> None:
    assert python_of("local[2]", {"PYSPARK_PYTHON": named}) == "python3"


def test_a_session_of_spark_connect_registers_as_spark_does() -> None:
    session: Any = FakeSession("local[2]")
    context = session.sparkContext
    del session.sparkContext
    session.dataSource = FakeRegistration(
        SimpleNamespace(sparkContext=context, registered=session.registered)
    )
    registration.register_source(session, {})
    assert session.registered == [(FloodmarkSource, "python3")]
