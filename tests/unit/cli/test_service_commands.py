"""`floodmark service` without a registry: stopping early, and what cannot be exported or shown."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from floodmark.cli.main import run
from floodmark.cli.service_results import shown
from floodmark.service.hessian import JavaObject
from kit.exported import FLOODMARK

MODULE = """
from floodmark.service import service

@service("dev.shop.Orders")
class Orders:
    def __init__(self, database):
        pass

    def find(self, number: int) -> str:
        return "an order"

@service("dev.shop.Simple")
class Simple:
    def __init__(self):
        print("made", flush=True)

    def find(self, number: int) -> str:
        return "an order"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "orders.py").write_text(MODULE)
    return tmp_path


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_export_that_has_not_begun_can_be_stopped(folder: Path, number: signal.Signals) -> None:
    options = ["--registry", "N/A", "--port", "-1", "--set", "delay=600000"]
    process = subprocess.Popen(
        [FLOODMARK, "service", "export", "orders:Simple", *options],
        cwd=folder,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "made\n"
        # It says no more until it is exported, and takes signals as soon as its loop runs.
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(1)
        process.send_signal(number)
        assert process.wait(10) == 0
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def test_a_class_that_needs_arguments_is_an_error_for_people(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", [str(folder), *sys.path])
    assert run(["service", "export", "orders:Orders", "--registry", "N/A"]) == 1
    said = capsys.readouterr().err
    assert "Orders cannot be created without arguments" in said
    assert "name an object" in said


def test_every_result_of_a_call_is_shown_as_json() -> None:
    result = {
        b"\xff": [float("nan"), float("inf"), 1.5],
        None: JavaObject("dev.shop.Order", {"number": 5}),
        True: {"at": b"x"},
        (1, 2): "tuple",
    }

    def refuse(name: str) -> object:
        raise AssertionError(f"{name} is not JSON")

    text = json.dumps(shown(result))
    document = json.loads(text, parse_constant=refuse)
    assert document["true"] == {"at": "x"}
    assert document["null"] == {"class": "dev.shop.Order", "number": 5}
    assert next(iter(document.values())) == ["NaN", "Infinity", 1.5]
    cyclic = JavaObject("dev.shop.Node", {})
    cyclic.fields["next"] = cyclic
    assert json.loads(json.dumps(shown(cyclic)))["class"] == "dev.shop.Node"
