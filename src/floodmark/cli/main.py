"""The `floodmark` command: finds the subcommand and turns errors into exit codes.

Exit codes: 0 success, 1 failure, 2 usage error, 130 interrupted; a command may return others that
its help names. Users never see a traceback for an error they can fix.
"""

from __future__ import annotations

import os
import sys

import click

from floodmark.cli.lazy import Lazy, LazyGroup

INTERRUPTED = 130

SHORT_HELPS = {
    "up": "Run a broker.",
    "zookeeper": "Run a real ZooKeeper to try out a cluster.",
    "topic": "Create, list, describe, alter, delete topics.",
    "config": "Describe and alter settings.",
    "group": "List, describe, reset and delete groups.",
    "transaction": "List, describe and abort transactions.",
    "cluster": "Show a cluster's health, brokers and disks.",
    "broker": "List brokers, shut one down cleanly.",
    "partition": "Move partitions, elect leaders.",
    "acl": "List, add and remove ACLs.",
    "quota": "Describe and alter client quotas.",
    "records": "Delete records up to an offset.",
    "feature": "Describe, upgrade and downgrade features.",
    "token": "Create, renew, expire and describe delegation tokens.",
    "user": "Set, describe and delete SCRAM users.",
    "produce": "Send records from stdin or a file.",
    "consume": "Print the records of a topic.",
    "cat": "Produce, consume and list with kcat's options.",
    "log": "Inspect a partition's files.",
    "pipeline": "Create, check and run Spark pipelines.",
    "service": "Serve Python objects to Dubbo consumers.",
    "demo": "Watch a broker and a pipeline work.",
    "bench": "Measure a broker's throughput and latency.",
    "profile": "Store client settings under a name.",
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
    """Kafka you can pip install: run a broker, and work with any Kafka cluster.

    Commands connect to the cluster given by -b HOST:PORT, FLOODMARK_BOOTSTRAP_SERVER or a
    profile. The default is 127.0.0.1:9092.
    """


def main() -> None:
    _open_standard_streams()
    sys.exit(run(sys.argv[1:]))


def _open_standard_streams() -> None:
    """Opens closed standard streams on /dev/null.

    Otherwise a file or socket would get that number. Printed text would then end up in it, and
    uvloop would refuse to close it.
    """
    for descriptor, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(descriptor)
        except OSError:
            # Opens the lowest free number, which is this one.
            os.open(os.devnull, os.O_RDWR)
            mode = "r" if name == "stdin" else "w"
            setattr(sys, name, os.fdopen(descriptor, mode, encoding="utf-8"))


def run(arguments: list[str]) -> int:
    """Runs one command line and returns its exit code. Tests call it too.

    click itself exits quietly with 1 when the reader of a pipe is gone.
    """
    try:
        result = cli.main(arguments, prog_name="floodmark", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except OSError as error:
        # For example a full disk behind stdout: show the system's own message.
        from floodmark.cli.errors import CliError

        CliError(
            "the command could not finish",
            why=str(error),
            hint="check the files and the disk it reads from and writes to",
        ).show()
        return 1
    return result if isinstance(result, int) else 0
