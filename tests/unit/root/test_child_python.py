"""Our child processes run our code, whatever lies in the folder in which the broker was started."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import floodmark
from floodmark.child_python import child_python
from floodmark.cli.commands.demo_broker import demo_broker
from floodmark.clock import SystemClock
from floodmark.storage.compaction.cleaner import CleanerSettings, LogCleaner
from floodmark.storage.files import RealFiles
from kit.compaction import CompactionBench

HOSTILE = ("queue", "heapq", "logging", "asyncio", "struct", "msgspec", "click", "floodmark")


@pytest.fixture
def hostile_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The working folder holds modules that leave a mark when they are run."""
    folder = tmp_path / "working"
    folder.mkdir()
    for name in HOSTILE:
        (folder / f"{name}.py").write_text(
            f"import pathlib; pathlib.Path({str(tmp_path)!r}, 'ran-{name}').touch()\n"
        )
    monkeypatch.chdir(folder)
    yield folder
    assert not list(tmp_path.glob("ran-*"))


async def test_the_cleaner_runs_no_module_of_the_working_folder(
    hostile_folder: Path, tmp_path: Path
) -> None:
    bench = CompactionBench(RealFiles(), tmp_path / "logs")
    bench.put(("k", "1"), ("k", "2"))
    bench.roll()
    with ThreadPoolExecutor(1) as executor:
        cleaner = LogCleaner(
            RealFiles(),
            lambda: [(bench.log, bench.log.log_end_offset)],
            SystemClock(),
            executor,
            lambda delay_ms, work: None,
            CleanerSettings(backoff_ms=1),
        )
        assert await cleaner.clean_one()
        await cleaner.close()
    bench.log.close(0)


def test_the_demo_broker_runs_no_module_of_the_working_folder(
    hostile_folder: Path, tmp_path: Path
) -> None:
    with demo_broker(tmp_path) as bootstrap:
        assert bootstrap


def test_a_child_finds_us_where_pythonpath_names_us_and_gets_its_arguments(
    hostile_folder: Path, tmp_path: Path
) -> None:
    (tmp_path / "named").mkdir()
    (tmp_path / "named" / "told.py").write_text("import sys; print(sys.argv[1:])")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "named")}
    command = child_python("told", "a", "b")
    output = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert output.stdout == "['a', 'b']\n"


def test_no_other_file_starts_a_python_module() -> None:
    sources = Path(floodmark.__file__).parent.rglob("*.py")
    starting = re.compile(r"sys\.executable,\s+\"-m\"")
    assert [path for path in sources if starting.search(path.read_text())] == []
