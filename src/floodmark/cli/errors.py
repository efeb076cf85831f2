"""Errors for people: what happened, why, and what to do next."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from floodmark.client.cluster.view import TopicPartition


class CliError(click.ClickException):
    """Exits the command with code 1 and prints these lines on stderr."""

    exit_code = 1

    def __init__(self, what: str, *, why: str | None = None, hint: str | None = None) -> None:
        super().__init__(what)
        self.why = why
        self.hint = hint

    def format_message(self) -> str:
        lines = [self.message]
        if self.why:
            lines.append(f"  why: {self.why}")
        if self.hint:
            lines.append(f"  try: {self.hint}")
        return "\n".join(lines)


def fail_with(failures: Sequence[CliError]) -> None:
    """Fails the command if there are failures: prints all but the last, then raises it.

    Those that say the same are printed once.
    """
    different = list({failed.format_message(): failed for failed in failures}.values())
    for failed in different[:-1]:
        failed.show()
    if different:
        raise different[-1]


def no_such_partition(partition: TopicPartition, partition_count: int) -> CliError:
    return CliError(
        f"topic {partition.topic} has no partition {partition.partition}",
        why="its only partition is 0"
        if partition_count == 1
        else f"its partitions are 0 to {partition_count - 1}",
        hint=f"`floodmark topic describe {partition.topic}` shows them",
    )
