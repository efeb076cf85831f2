"""Compares a Java provider with ours: the same Java 2.7.23 consumer, 16 threads, in turn.

`python bench/services.py [--seconds 4] [--rounds 3]`; `make bench-services` calls it. Prints calls
per second, the median of the rounds, and the ratio to Java; and the CPU time of provider and
consumer per call, which other work on the machine hardly changes. The last column is the ratio that
follows from it: calls per second of CPU time, of both ends together.
"""

import argparse
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from bench_service import bench_interface

from kit.dubbo_jars import DUBBO_2
from kit.dubbo_program import command, compiled
from kit.process import ServerProcess, free_port

HERE = Path(__file__).parent


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    interface, _ = bench_interface()
    programs = [HERE / "java" / name for name in ("BenchProvider.java", "BenchConsumer.java")]
    classes = compiled(DUBBO_2, interface, *programs)
    ports = {"java": free_port(), "floodmark": free_port()}
    java = _fast(command(DUBBO_2, classes, "BenchProvider", [str(ports["java"])]))
    ours = [sys.executable, str(HERE / "bench_service.py"), str(ports["floodmark"])]
    with (
        tempfile.TemporaryDirectory() as folder,
        ServerProcess(java, Path(folder) / "java.log") as first,
        ServerProcess(ours, Path(folder) / "ours.log") as second,
    ):
        for process in (first, second):
            process.wait_until(lambda process=process: "ready" in process.output())
        pairs = [f"{name}={port}" for name, port in ports.items()]
        arguments = [str(options.seconds), str(options.rounds), *pairs]
        consumer = _fast(command(DUBBO_2, classes, "BenchConsumer", arguments))
        measured = list(_measure(consumer, {"java": first, "floodmark": second}))
    _report([one for one in measured if one.case != "warmup"])


class Measured(NamedTuple):
    """One case with one provider for some seconds."""

    case: str
    name: str
    calls: int
    seconds: float
    consumer_cpu: float
    provider_cpu: float

    @property
    def rate(self) -> float:
        return self.calls / self.seconds


def _measure(consumer: list[str], providers: dict[str, ServerProcess]) -> Iterator[Measured]:
    """Run the consumer to its end; a line says that a measurement is over."""
    with subprocess.Popen(consumer, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        before = {name: process.cpu_seconds() for name, process in providers.items()}
        for line in running.stdout:
            case, name, calls, seconds, consumer_cpu = line.split()
            now = providers[name].cpu_seconds()
            spent, before[name] = now - before[name], now
            yield Measured(case, name, int(calls), float(seconds), float(consumer_cpu), spent)
    assert running.returncode == 0, f"the consumer ended with {running.returncode}"


def _fast(program: list[str]) -> list[str]:
    """With the optimising compiler, which tests do without."""
    return [part for part in program if part != "-XX:TieredStopAtLevel=1"]


def _report(measured: list[Measured]) -> None:
    print("| case | Java, calls/s | Floodmark, calls/s | ratio | CPU per call, both ends |")
    print("|---|---:|---:|---:|---|")
    for case in dict.fromkeys(one.case for one in measured):
        java, ours = (
            [one for one in measured if (one.case, one.name) == (case, name)]
            for name in ("java", "floodmark")
        )
        rates = [statistics.median(one.rate for one in side) for side in (java, ours)]
        costs = [_microseconds(side) for side in (java, ours)]
        text = ", ".join(
            f"{name} {provider:.0f} + {consumer:.0f} us"
            for name, (provider, consumer) in zip(("Java", "Floodmark"), costs, strict=True)
        )
        print(
            f"| {case} | {rates[0]:,.0f} | {rates[1]:,.0f} | {rates[1] / rates[0]:.2f} "
            f"| {text}: {sum(costs[0]) / sum(costs[1]):.2f} |"
        )


def _microseconds(measured: list[Measured]) -> tuple[float, float]:
    """Of the provider and of the consumer for a call."""
    calls = sum(one.calls for one in measured)
    provider = sum(one.provider_cpu for one in measured)
    consumer = sum(one.consumer_cpu for one in measured)
    return provider / calls * 1e6, consumer / calls * 1e6


if __name__ == "__main__":
    main()
