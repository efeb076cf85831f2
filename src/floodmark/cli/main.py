"""The command `floodmark`: finds the subcommand, and turns what goes wrong into an exit code.

Exit codes: 0 done, 1 it failed, 2 it was called wrongly, 130 interrupted. Never a traceback for
what a user can do something about.
"""

from __future__ import annotations

import sys

import click

from floodmark.cli.lazy import Lazy, LazyGroup

INTERRUPTED = 130

SHORT_HELPS = {
    "up": "Run a broker.",
    "zookeeper": "Run a real ZooKeeper, to try a cluster.",
    "topic": "Create, list, describe, alter, delete topics.",
    "config": "Describe and alter settings.",
    "group": "List, describe, reset and delete groups.",
    "transaction": "List, describe and abort transactions.",
    "cluster": "Show how a cluster does: brokers, controller, disks.",
    "broker": "List brokers, stop one in order.",
    "partition": "Move partitions, elect their leaders.",
    "acl": "List, add and remove ACLs.",
    "quota": "Describe and alter quotas of clients.",
    "records": "Delete records up to an offset.",
    "feature": "Describe, upgrade and downgrade features.",
    "user": "Create, list and delete SCRAM users.",
    "produce": "Send records from stdin or a file.",
    "consume": "Print the records of a topic.",
    "cat": "Produce, consume and list with kcat's letters.",
    "log": "Look into the files of a partition.",
    "pipeline": "Make, check and run pipelines on Spark.",
    "service": "Serve Python objects to Dubbo consumers.",
    "demo": "See a broker and a pipeline at work.",
    "bench": "Measure a broker with our own client.",
    "profile": "Keep client settings under a name.",
    "completion": "Print a completion script.",
}

COMMANDS = {
    name: Lazy(f"floodmark.cli.commands.{name}:{name}", short_help)
    for name, short_help in SHORT_HELPS.items()
}


def _print_version(ctx: click.Context, _param: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        from importlib.metadata import version

        click.echo(f"floodmark {version('floodmark')}")
        ctx.exit()


@click.group(
    cls=LazyGroup,
    commands_at=COMMANDS,
    examples=[
        "floodmark up",
        "echo hello | floodmark produce greetings",
        "floodmark consume greetings --from-beginning",
        "floodmark topic create orders -p 6",
        "floodmark COMMAND --help",
    ],
)
@click.option(
    "--version",
    "-V",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Print the version.",
)
def cli() -> None:
    """A Kafka that you pip install: run a broker, and work with any Kafka cluster.

    Commands that talk to a cluster find it by -b HOST:PORT, FLOODMARK_BOOTSTRAP_SERVER or a
    profile; without any of them at 127.0.0.1:9092.
    """


def main() -> None:
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Run one command line and give its exit code; tests call it too.

    click itself ends quietly with 1 when the reader of a pipe has gone.
    """
    try:
        result = cli.main(arguments, prog_name="floodmark", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except OSError as error:
        # A full disk behind stdout, for example: the system knows best what is wrong.
        from floodmark.cli.errors import CliError

        CliError(
            "the command could not finish",
            why=str(error),
            hint="look at the files and the disk that it reads from and writes to",
        ).show()
        return 1
    return result if isinstance(result, int) else 0
