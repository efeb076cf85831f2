"""Settings from variables and files, and the options of a run in pipeline.toml."""

from pathlib import Path

import pytest

from floodmark.pipeline.authoring.loading import load_run_options, load_settings
from floodmark.pipeline.errors import PipelineError

TOML = """
[settings]
topic = "orders"
db-password = {file = "secret"}
token = {env = "SHOP_TOKEN"}
[run]
master = "local[4]"
conf = {"spark.a" = "1", "spark.b" = true}
[environments.production]
topic = "orders-production"
[environments.production.run]
bootstrap_server = "broker:9092"
checkpoint = "s3a://bucket/shop"
[environments.production.run.conf]
"spark.a" = "2"
"spark.key" = {env = "SHOP_TOKEN"}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "pipeline.toml").write_text(TOML)
    (tmp_path / "secret").write_text("hunter2\n")
    monkeypatch.setenv("SHOP_TOKEN", "t0ken")
    return tmp_path


def test_secrets_come_from_files_and_variables(folder: Path) -> None:
    assert load_settings(folder, None) == {
        "topic": "orders",
        "db-password": "hunter2",
        "token": "t0ken",
    }
    assert load_settings(folder, "production")["topic"] == "orders-production"


def test_variables_override_the_file_by_name_or_by_a_file_of_their_own(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLOODMARK_SET_DB_PASSWORD_FILE", str(folder / "other"))
    monkeypatch.setenv("FLOODMARK_SET_TOPIC", "from-variable")
    monkeypatch.setenv("FLOODMARK_SET_NEW_ONE", "1")
    (folder / "other").write_text("swordfish")
    (folder / "secret").unlink()  # not needed any more
    assert load_settings(folder, "production") == {
        "topic": "from-variable",
        "db-password": "swordfish",
        "token": "t0ken",
        "new_one": "1",
    }


def test_an_environment_says_where_and_how_to_run(folder: Path) -> None:
    assert load_run_options(folder, None).conf == {"spark.a": "1", "spark.b": "true"}
    found = load_run_options(folder / "pipeline.py", "production")
    assert (found.bootstrap_server, found.master) == ("broker:9092", "local[4]")
    assert found.checkpoint == "s3a://bucket/shop"
    assert found.conf == {"spark.a": "2", "spark.b": "true", "spark.key": "t0ken"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[run]\nmastre = 'x'", "mastre in .run. is unknown: use bootstrap_server, master"),
        ("[settings]\na = {env = 'FLOODMARK_UNSET'}", "a needs the variable FLOODMARK_UNSET"),
        ("[settings]\na = {file = 'missing'}", "missing for a could not be read: No such file"),
        ("[settings]\na = {b = 1}", "a is a section, but must be a value"),
        ("[run]\nconf = 'x'", "conf is 'x', but must be a section"),
    ],
)
def test_what_cannot_be_honoured_is_told(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "pipeline.toml").write_text(text)
    with pytest.raises(PipelineError, match=message):
        load_settings(tmp_path, None)
        load_run_options(tmp_path, None)
