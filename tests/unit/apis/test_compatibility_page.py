"""docs/compatibility.md says what the code serves."""

from pathlib import Path
from types import ModuleType

import pytest

from floodmark.config.settings import BROKER_SETTINGS_BY_NAME, TOPIC_SETTINGS_BY_NAME
from kit.scripts import load_tool

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "compatibility.md"


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    return load_tool("compatibility")


def test_the_api_tables_are_those_of_the_dispatcher(tool: ModuleType) -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page == tool.with_tables(page), "run python tools/compatibility.py"


def test_a_page_without_its_marks_is_refused(tool: ModuleType) -> None:
    with pytest.raises(ValueError, match="needs the marks"):
        tool.with_tables("# A page\n")


def test_the_settings_on_the_page_exist() -> None:
    """The first column of the settings tables names settings, or families of them with a star."""
    known = {*BROKER_SETTINGS_BY_NAME, *TOPIC_SETTINGS_BY_NAME}
    for name in _settings_named_on(PAGE.read_text(encoding="utf-8")):
        if name.endswith("*"):
            assert any(setting.startswith(name[:-1]) for setting in known), name
        else:
            assert name in known, name


def _settings_named_on(page: str) -> list[str]:
    settings = page[page.index("## Settings") :]
    cells = [line.split("|")[1] for line in settings.splitlines() if line.startswith("| `")]
    return [name.strip(" `") for cell in cells for name in cell.split(",")]
