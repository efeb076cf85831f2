"""The files in deploy/ ask for options, settings and pages that exist."""

import json
import re
import shlex
import subprocess
import sys
from configparser import ConfigParser
from pathlib import Path

import pytest

from floodmark.cli.commands.up import up
from floodmark.config.broker_config import BrokerConfig
from floodmark.config.loaders import parse_environment, parse_properties
from floodmark.config.not_served import refuse_open_doors, without_effect
from floodmark.testing.broker_thread import BrokerThread
from kit.scraping import watched

DEPLOY = Path(__file__).parents[3] / "deploy"


def text(name: str) -> str:
    return (DEPLOY / name).read_text(encoding="utf-8")


def instruction(name: str) -> list[str]:
    """The JSON list behind an instruction of the Dockerfile."""
    (line,) = (line for line in text("Dockerfile").splitlines() if line.startswith(name))
    words: list[str] = json.loads(line[line.index("[") :])
    return words


def check_options(command: list[str]) -> None:
    program, verb, *options = command
    assert (Path(program).name, verb) == ("floodmark", "up")
    known = {option for parameter in up.params for option in parameter.opts}
    assert {option for option in options if option.startswith("--")} <= known
    assert "--metrics-port" in options


def test_the_sample_settings_are_known_and_work_also_those_in_comments() -> None:
    sample = text("server.properties")
    for properties in (sample, re.sub(r"^#(?=\S+=)", "", sample, flags=re.MULTILINE)):
        config = BrokerConfig.load(parse_properties(properties))
        refuse_open_doors(config)
        assert not config.unknown_names
        assert not without_effect(config)
    assert all(one.is_loopback for one in BrokerConfig.load(parse_properties(sample)).listeners)


def test_the_unit_and_the_image_start_the_broker_with_options_that_exist() -> None:
    unit = ConfigParser(interpolation=None)
    unit.optionxform = str  # type: ignore[assignment]
    unit.read_string(text("floodmark.service"))
    check_options(shlex.split(unit["Service"]["ExecStart"]))
    check_options(instruction("ENTRYPOINT"))


def test_the_compose_file_gives_settings_that_exist() -> None:
    pairs = dict(re.findall(r"^ +(FLOODMARK_\w+): (\S+)$", text("compose.yaml"), re.MULTILINE))
    assert len(pairs) == 2
    config = BrokerConfig.load(parse_environment(pairs))
    assert not config.unknown_names
    assert [(one.host, one.port) for one in config.listeners] == [("0.0.0.0", 9092)]


@pytest.mark.parametrize("name", ["Dockerfile", "compose.yaml"])
def test_the_health_check_asks_a_page_that_is_there(floodmark: BrokerThread, name: str) -> None:
    (script,) = re.findall(r'"(import urllib[^"]*)"', text(name))
    with watched(floodmark) as watcher:
        host, port = watcher.server.host, watcher.server.port
        command = [sys.executable, "-c", script.replace("127.0.0.1:9404", f"{host}:{port}")]
        assert subprocess.run(command, check=False, capture_output=True).returncode == 0
        floodmark.broker.is_serving = False
        try:
            assert subprocess.run(command, check=False, capture_output=True).returncode != 0
        finally:
            floodmark.broker.is_serving = True
