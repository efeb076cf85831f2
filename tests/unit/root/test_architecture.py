"""ARCHITECTURE.md is a map: what it names must be there."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
ROOMS = ROOT / "src" / "floodmark"
TEXT = (ROOT / "ARCHITECTURE.md").read_text()


@pytest.mark.parametrize("name", sorted(set(re.findall(r"`([\w/]+\.py)`", TEXT))))
def test_a_file_that_the_map_names_is_there(name: str) -> None:
    assert any(ROOMS.rglob(name)), f"ARCHITECTURE.md names {name}"


@pytest.mark.parametrize("name", sorted(set(re.findall(r"`(\w+(?:/\w+)*)/`", TEXT))))
def test_a_folder_that_the_map_names_is_there(name: str) -> None:
    assert (ROOT / name).is_dir() or any(
        found.is_dir() for top in (ROOMS, ROOT / "tests") for found in top.rglob(name)
    ), f"ARCHITECTURE.md names {name}/"
