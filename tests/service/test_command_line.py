"""`floodmark service ...` as processes, against a real ZooKeeper."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from floodmark.service.consumer import Consumer
from kit.exported import FLOODMARK, TESTS, exported
from kit.process import free_port
from kit.programs import run_program
from kit.sample_service import Sample
from kit.waiting import eventually
from kit.zookeeper import ZooKeeper

pytestmark = pytest.mark.java


def test_export_list_call_and_an_orderly_end(zookeeper: ZooKeeper, tmp_path: Path) -> None:
    interface = "dev.floodmark.sample.Line"
    registry = ["--registry", f"zookeeper://{zookeeper.hosts}"]
    with exported(zookeeper, tmp_path, interface) as process:
        listed = run_program([FLOODMARK, "service", "list", *registry])
        assert interface in listed and "2.7.23" in listed
        rows = json.loads(
            run_program([FLOODMARK, "service", "list", interface, "-o", "json", *registry])
        )
        assert rows[0]["interface"] == interface
        call = [FLOODMARK, "service", "call", interface]
        assert json.loads(run_program([*call, "hello", "you", *registry])) == "hello you"
        found = json.loads(run_program([*call, "find", "7000000000", *registry]))
        assert found["customer"]["name"] == "Žofie 😀"
        with pytest.raises(AssertionError, match="there is no order 5"):
            run_program([*call, "find", "5", *registry])
        assert process.stop() == 0
    assert "no provider" in run_program([FLOODMARK, "service", "list", interface, *registry])


async def test_one_of_two_providers_is_killed_without_a_failed_call(
    zookeeper: ZooKeeper, tmp_path: Path
) -> None:
    interface = "dev.floodmark.sample.Killed"
    registry = f"zookeeper://{zookeeper.hosts}"
    with (
        exported(zookeeper, tmp_path, interface) as first,
        exported(zookeeper, tmp_path, interface),
    ):
        async with Consumer(registry=registry) as consumer:
            proxy = await consumer.refer(Sample, interface, loadbalance="roundrobin")
            await eventually(lambda: len(proxy.reference.addresses) == 2)
            for number in range(600):
                if number == 200:
                    first.kill()
                assert await proxy.hello(str(number)) == f"hello {number}"
            # Its session ends, and with it its registration.
            await eventually(lambda: len(proxy.reference.addresses) == 1)


def test_stubs_are_written(tmp_path: Path) -> None:
    command = [FLOODMARK, "service", "stub", "kit.sample_service:Sample"]
    command += ["--interface", "dev.x.Sample", "--java", str(tmp_path), "--go", f"{tmp_path}/x.go"]
    run_program(command, cwd=TESTS)
    assert "interface Sample" in (tmp_path / "dev/x/Sample.java").read_text()
    assert "type Sample struct" in (tmp_path / "x.go").read_text()


def test_mistakes_are_explained(tmp_path: Path) -> None:
    for arguments, text in (
        (["export", "nowhere:X"], "there is no module nowhere"),
        (["export", "kit.sample_service:Sample"], "has no Java interface"),
        (
            ["list", "--registry", f"zookeeper://127.0.0.1:{free_port()}?timeout=200"],
            "the registry is unreachable",
        ),
        (["list", "--registry", "nacos://127.0.0.1:1"], "is not supported"),
    ):
        with pytest.raises(AssertionError, match=text) as caught:
            run_program([FLOODMARK, "service", *arguments], cwd=TESTS)
        assert "Connection dropped" not in str(caught.value), "kazoo's lines are for its authors"
