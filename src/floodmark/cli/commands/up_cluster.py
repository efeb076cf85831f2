"""`floodmark up --brokers N`: runs a cluster on this machine, one process per broker.

Called by cli/commands/up.py. Starts each broker as `floodmark up --broker-id I --cluster-dir ...`,
prints where they listen, and shuts them all down cleanly. If a broker exits or is killed, it
reports that and keeps the others running.
"""

from __future__ import annotations

import signal
import socket
import subprocess
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

import click

from floodmark.child_python import child_python
from floodmark.cli.errors import CliError

READY = "floodmark listens on"
STOP_TIMEOUT_S = 60


@dataclass(frozen=True, slots=True)
class ClusterPlan:
    """`passed_on` holds the options that all brokers share."""

    brokers: int
    host: str
    first_port: int
    data_dir: Path
    passed_on: Sequence[str]
    security_dir: Path | None = None
    """The folder for the files of --secure; None for plaintext."""

    def options(self, broker_id: int) -> list[str]:
        return [
            *("--broker-id", str(broker_id)),
            *("--cluster-dir", str(self.data_dir / "cluster")),
            *("--data-dir", str(self.data_dir / f"broker-{broker_id}")),
            *("--host", self.host, "--port", str(self.port(broker_id))),
            *(("--secure", "--security-dir", str(self.security_dir)) if self.security_dir else ()),
            *self.passed_on,
        ]

    def port(self, broker_id: int) -> int:
        """Port 0 stays 0: each broker picks a free port."""
        return self.first_port and self.first_port + broker_id - 1


def run_cluster(plan: ClusterPlan) -> int:
    _refuse_taken_ports(plan)
    cluster = _Processes(plan)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, cluster.stop)
    try:
        addresses = cluster.wait_until_ready()
        _say_ready(plan, addresses)
        return cluster.wait()
    finally:
        cluster.stop()
        cluster.wait()


def _refuse_taken_ports(plan: ClusterPlan) -> None:
    """Otherwise some brokers would form a cluster, only to be stopped when another one fails."""
    for broker_id in range(1, plan.brokers + 1):
        port = plan.port(broker_id)
        family = socket.AF_INET6 if ":" in plan.host else socket.AF_INET
        try:
            with socket.socket(family) as probe:
                # As the listeners do: ports of earlier connections are free.
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind((plan.host, port))
        except OSError as error:
            raise CliError(
                "the cluster cannot start",
                why=f"broker {broker_id} cannot listen on {plan.host}:{port}: {error.strerror}",
                hint="choose another --host or --port, or stop the process that listens there",
            ) from error


class _Processes:
    def __init__(self, plan: ClusterPlan) -> None:
        self._plan = plan
        self._is_stopping = False
        self._processes = {
            broker_id: subprocess.Popen(
                child_python("floodmark", "up", *plan.options(broker_id)),
                stdout=subprocess.PIPE,
                text=True,
                # We forward Ctrl-C ourselves, to stop the brokers in order.
                start_new_session=True,
            )
            for broker_id in range(1, plan.brokers + 1)
        }

    def wait_until_ready(self) -> list[str]:
        return [self._address(broker_id) for broker_id in self._processes]

    def _address(self, broker_id: int) -> str:
        process = self._processes[broker_id]
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith(READY):
                # Discard the rest: those hints are for a single broker.
                threading.Thread(target=process.stdout.read, daemon=True).start()
                return line.removeprefix(READY).partition(",")[0].strip()
        raise CliError(
            f"broker {broker_id} did not start",
            why="its messages are above",
            hint="fix the problem shown there; the other brokers were stopped",
        )

    def wait(self) -> int:
        """Waits until all brokers have exited. Returns the highest exit code."""
        waiting = dict(self._processes)
        codes = [0]
        while waiting:
            for broker_id, process in list(waiting.items()):
                try:
                    code = process.wait(0.2)
                except subprocess.TimeoutExpired:
                    continue
                del waiting[broker_id]
                codes.append(abs(code) if self._is_stopping else 0)
                if not self._is_stopping:
                    self._tell_of_end(broker_id, code, is_last=not waiting)
        return max(codes)

    def stop(self, _number: int = 0, _frame: FrameType | None = None) -> None:
        self._is_stopping = True
        for process in self._processes.values():
            if process.poll() is None:
                process.terminate()

    def _tell_of_end(self, broker_id: int, code: int, *, is_last: bool) -> None:
        command = " ".join(["floodmark", "up", *self._plan.options(broker_id)])
        rest = "no broker is left" if is_last else "the others keep running"
        how = f"was killed by signal {-code}" if code < 0 else f"has stopped with exit code {code}"
        click.echo(f"broker {broker_id} {how}, {rest}. To start it again: {command}")


def _say_ready(plan: ClusterPlan, addresses: Sequence[str]) -> None:
    servers = ",".join(addresses)
    click.echo(f"a cluster of {plan.brokers} brokers listens on {servers}, data in {plan.data_dir}")
    if plan.security_dir is not None:
        from floodmark.cli.commands.up_secure import say_secure

        say_secure(plan.security_dir, servers, "floodmark")
        click.echo("  stop: Ctrl-C")
        return
    click.echo(f"  a topic with a replica on each:  floodmark topic create t -r 3 -b {servers}")
    click.echo(f"  send records:                    floodmark produce t -b {servers}")
    click.echo("  stop: Ctrl-C")
