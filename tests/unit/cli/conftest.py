"""One broker for the tests of a module, and a command line that is pointed at it."""

import io
import sys
import tempfile
from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest

from floodmark.cli.main import run
from floodmark.testing.broker_thread import BrokerThread


class Done(NamedTuple):
    code: int
    out: str
    err: str


Cli = Callable[..., Done]


@pytest.fixture(autouse=True)
def own_profiles(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """The profiles of the user who runs the tests do not affect them."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.mktemp("config")))
    monkeypatch.delenv("FLOODMARK_PROFILE", raising=False)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerThread]:
    with BrokerThread(tmp_path_factory.mktemp("broker")) as running:
        yield running


@pytest.fixture
def cli(
    broker: BrokerThread, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Cli:
    """Run one command line in this process; `stdin` is what it reads."""
    monkeypatch.setenv("FLOODMARK_BOOTSTRAP_SERVER", broker.bootstrap_servers)

    def command(*arguments: str, stdin: bytes = b"") -> Done:
        # A real file, because commands read from its descriptor.
        with tempfile.TemporaryFile() as file, io.TextIOWrapper(file) as given:
            file.write(stdin)
            file.seek(0)
            monkeypatch.setattr(sys, "stdin", given)
            capfd.readouterr()
            code = run([*arguments])
        sys.stdout.flush()
        return Done(code, *capfd.readouterr())

    return command
