"""Help pages, hints and docs: whatever they tell people to type has to work.

Every example and every `floodmark ...` in a message is run up to the point where it would reach a
broker, so that options, arguments and the checks of the command itself have all had their say.
"""

import ast
import re
import shlex
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any

import click
import pytest

import floodmark.cli
from floodmark.cli.help import Command, Group
from floodmark.cli.main import cli, run

CLI_FOLDER = Path(floodmark.cli.__file__).parent
PIPELINE_FOLDER = CLI_FOLDER.parent / "pipeline"
DOCS = Path(__file__).parents[3] / "docs"


class ReachedBroker(BaseException):
    """All that stands before the first request has been passed."""


def all_commands(
    command: click.Command = cli, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    yield path, command
    if isinstance(command, click.Group):
        ctx = click.Context(command)
        for name in command.list_commands(ctx):
            found = command.get_command(ctx, name)
            assert found is not None
            yield from all_commands(found, (*path, name))


COMMANDS = dict(all_commands())
PATHS = [pytest.param(path, id=" ".join(path) or "floodmark") for path in COMMANDS]


def command_lines(text: str) -> list[str]:
    """What stands behind `floodmark` in a shell line; pipes and substitutions end it."""
    return re.findall(r"floodmark ((?:'[^']*'|[^'|>\")])*)", text.split("    #", maxsplit=1)[0])


def given_examples() -> list[str]:
    return [
        line
        for command in COMMANDS.values()
        if isinstance(command, Command | Group)
        for example in command.examples
        for line in command_lines(example)
    ]


def messages(folder: Path = CLI_FOLDER) -> Iterator[tuple[str, str]]:
    """Texts in the sources, with {} for what is filled in, and where they stand. Docstrings are
    left out, but for those of commands, which are their help."""
    for path, command in COMMANDS.items():
        yield " ".join(path), command.help or ""
    for file in sorted(folder.glob("*.py")):
        tree = ast.parse(file.read_text())
        left_out: set[int] = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.JoinedStr):
                left_out.update(map(id, node.values))
            elif isinstance(node, ast.Expr):
                left_out.add(id(node.value))
        for node in ast.walk(tree):
            if id(node) in left_out:
                continue
            if isinstance(node, ast.JoinedStr):
                parts = [p.value if isinstance(p, ast.Constant) else "{}" for p in node.values]
                yield file.name, "".join(map(str, parts))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield file.name, node.value


def hinted_commands() -> list[str]:
    """The `floodmark ...` commands of all messages; names are put where they are left open."""
    found = {
        line.replace("{}", "topics" if line.startswith("config list") else "name")
        for folder in (CLI_FOLDER, PIPELINE_FOLDER)
        for _, text in messages(folder)
        for line in re.findall(r"`floodmark ([^`]+)`", text)
    }
    return sorted(found)


@pytest.fixture
def up_to_the_broker(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Files need not exist, and nothing is started or connected."""

    def reached(*_args: Any, **_kwargs: Any) -> None:
        raise ReachedBroker

    def not_run(work: Coroutine[Any, Any, Any]) -> None:
        work.close()
        raise ReachedBroker

    monkeypatch.setattr("floodmark.client.cluster.cluster.Cluster.connect", reached)
    monkeypatch.setattr("floodmark.broker.main.run", reached)
    monkeypatch.setattr("floodmark.cli.commands.up_cluster.run_cluster", reached)
    monkeypatch.setattr("floodmark.cli.commands.zookeeper._jars", reached)
    monkeypatch.setattr("floodmark.cli.commands.service._run", not_run)
    monkeypatch.setattr("floodmark.cli.commands.service._load", reached)
    monkeypatch.setattr("floodmark.cli.commands.demo.check_machine", reached)
    for module in ("cli.pipeline_plans", "cli.commands.pipeline_deploy"):
        monkeypatch.setattr(f"floodmark.{module}.load_run_options", reached)
    monkeypatch.setattr("floodmark.pipeline.spark.session.spark_session", reached)
    monkeypatch.setattr("floodmark.pipeline.authoring.loading.load_pipeline", reached)
    monkeypatch.setattr("floodmark.cli.commands.pipeline.read_checkpoint", reached)
    monkeypatch.setattr("floodmark.cli.commands.pipeline_replay._find", reached)
    monkeypatch.setattr("floodmark.cli.commands.log.dump_file", reached)
    monkeypatch.setattr("floodmark.cli.commands.records.read_deletions", reached)
    monkeypatch.setattr("floodmark.cli.commands.up._read_file", lambda _path: {})
    monkeypatch.setattr(click.Path, "convert", lambda _self, value, _param, _ctx: value)
    monkeypatch.chdir(tmp_path)
    Path("lines.txt").touch()
    run(["profile", "create", "staging"])
    run(["profile", "create", "NAME", "--use"])
    with Path("/dev/null").open() as nothing:
        monkeypatch.setattr("sys.stdin", nothing)
        yield


def type_in(line: str) -> None:
    """Give it to the real command line, which has to end well or to ask for a broker."""
    arguments = shlex.split(line)
    if arguments[:2] == ["profile", "create"]:
        arguments.append("--force")
    try:
        code = run(arguments)
    except ReachedBroker:
        return
    assert code == 0


@pytest.mark.parametrize("path", PATHS)
def test_every_help_page_has_examples(
    path: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*path, "--help"]) == 0
    page = capsys.readouterr().out
    assert "\nExamples:\n  " in page
    assert f"floodmark {' '.join(path)}".strip() in page.split("\nExamples:\n")[1]
    assert run([*path, "-h"]) == 0


@pytest.mark.parametrize("path", PATHS)
def test_every_option_and_command_is_explained(path: tuple[str, ...]) -> None:
    command = COMMANDS[path]
    assert command.help
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            assert parameter.help, f"{parameter.opts[0]} of {' '.join(path)}"


@pytest.mark.usefixtures("up_to_the_broker")
@pytest.mark.parametrize("line", given_examples())
def test_every_example_works(line: str) -> None:
    type_in(line.replace("COMMAND", "topic"))


@pytest.mark.usefixtures("up_to_the_broker")
@pytest.mark.parametrize("line", hinted_commands())
def test_every_command_in_a_message_works(line: str) -> None:
    type_in(line)


def test_hints_put_commands_in_backquotes() -> None:
    """So that the test above finds them."""
    bare = re.compile(
        rf"(?<!`)\bfloodmark (?:{'|'.join({path[0] for path in COMMANDS if path})})\b"
    )
    examples = {line for c in COMMANDS.values() for line in getattr(c, "examples", ())}
    # Whole command lines to paste, each on a line of its own.
    pasted = re.compile(r"  .*(floodmark|\{\}) (produce|consume|topic|pipeline) ")
    found = [
        (file, text)
        for file, text in messages()
        if bare.search(text) and text not in examples and not pasted.match(text)
    ]
    assert found == []


def test_every_option_in_a_message_exists() -> None:
    known = {
        name
        for command in COMMANDS.values()
        for parameter in command.params
        for name in (*parameter.opts, *parameter.secondary_opts)
    } | {"--help", "--reset-offsets", "--deep"}
    unknown = [
        (file, option)
        for file, text in messages()
        for option in re.findall(r"(?<![\w-])--[a-z][a-z-]*[a-z]", text)
        if option not in known
    ]
    assert unknown == []


@pytest.mark.usefixtures("up_to_the_broker")
def test_every_command_in_the_docs_of_the_cli_works() -> None:
    text = (DOCS / "cli.md").read_text()
    shown = re.findall(r"^    (.*floodmark .*)$", text, re.MULTILINE)
    shown += re.findall(r"`(floodmark [^`]+)`", text)
    lines = [line for item in shown for line in command_lines(item)]
    assert len(lines) > 30
    for line in lines:
        type_in(line.replace("COMMAND", "topic"))
