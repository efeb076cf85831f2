"""`floodmark profile`, and which of all the places that may name a cluster wins."""

import json
import stat
from pathlib import Path

import pytest

from floodmark.cli.main import run


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FLOODMARK_BOOTSTRAP_SERVER", raising=False)


def asked(capsys: pytest.CaptureFixture[str], *options: str) -> str:
    """The port of the address that a command tries; nobody listens on any of them."""
    assert run(["topic", "list", *options]) == 1
    said = capsys.readouterr().err
    return said.split("127.0.0.1:")[1].split()[0].rstrip(":,)")


def create(name: str, port: int, *options: str) -> None:
    assert run(["profile", "create", name, "-b", f"127.0.0.1:{port}", *options]) == 0


def test_options_win_over_the_environment_which_wins_over_the_profile(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    create("used", 1, "--use")
    create("other", 2)
    assert asked(capsys) == "1"
    monkeypatch.setenv("FLOODMARK_PROFILE", "other")
    assert asked(capsys) == "2"
    monkeypatch.setenv("FLOODMARK_BOOTSTRAP_SERVER", "127.0.0.1:3")
    assert asked(capsys) == "3"
    # Named for this very command: an exported variable must not send it elsewhere.
    assert asked(capsys, "--profile", "used") == "1"
    file = tmp_path / "client.properties"
    file.write_text("bootstrap.servers=127.0.0.1:4\n")
    assert asked(capsys, "--profile", "used", "--command-config", str(file)) == "4"
    assert asked(capsys, "--command-config", str(file), "-b", "127.0.0.1:5") == "5"
    assert asked(capsys, "--profile", "used", "-b", "127.0.0.1:6") == "6"


def test_no_profile_counts_for_one_command(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    create("used", 1, "--use")
    monkeypatch.setenv("FLOODMARK_BOOTSTRAP_SERVER", "127.0.0.1:3")
    assert asked(capsys, "--profile", "") == "3"


def test_cat_and_producers_follow_the_profile_too(capsys: pytest.CaptureFixture[str]) -> None:
    create("used", 1, "--use")
    for command in (["cat", "-L"], ["consume", "t"]):
        assert run(command) == 1
        assert "127.0.0.1:1" in capsys.readouterr().err


def test_profiles_are_listed_shown_chosen_and_deleted(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["profile", "list"]) == 0
    assert "`floodmark profile create NAME" in capsys.readouterr().err
    create("a", 1, "-X", "client.id=back\\slash", "--use")
    create("b", 2)
    capsys.readouterr()
    assert run(["profile", "list", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == [
        {"profile": "a", "in_use": True, "bootstrap_servers": "127.0.0.1:1"},
        {"profile": "b", "in_use": False, "bootstrap_servers": "127.0.0.1:2"},
    ]
    assert run(["profile", "show", "-o", "json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["settings"]["client.id"] == "back\\slash"
    assert stat.S_IMODE(Path(shown["file"]).stat().st_mode) == 0o600
    assert run(["profile", "use", "b"]) == 0
    assert run(["profile", "delete", "b"]) == 0
    capsys.readouterr()
    assert run(["profile", "show"]) == 1
    assert "no profile is in use" in capsys.readouterr().err


def test_a_profile_is_not_replaced_unasked(capsys: pytest.CaptureFixture[str]) -> None:
    create("a", 1)
    assert run(["profile", "create", "a", "-b", "127.0.0.1:9"]) == 1
    assert "--force" in capsys.readouterr().err
    assert asked(capsys, "--profile", "a") == "1"
    create("a", 9, "--force")
    assert asked(capsys, "--profile", "a") == "9"


def test_a_missing_profile_is_an_error_with_a_suggestion(
    capsys: pytest.CaptureFixture[str],
) -> None:
    create("staging", 1)
    assert run(["topic", "list", "--profile", "stagin"]) == 1
    assert "profile stagin (did you mean staging?) does not exist" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["../up", "", "a/b", ".hidden"])
def test_a_name_cannot_lead_out_of_the_folder(name: str) -> None:
    assert run(["profile", "create", name]) == 2


def test_without_a_variable_profiles_are_in_the_home_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", "not/absolute")
    create("a", 1)
    assert (tmp_path / ".config/floodmark/profiles/a.properties").exists()
