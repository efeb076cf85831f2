"""Compares a Java provider with ours: the same Java 2.7.23 consumer, 16 threads, in turn.

`python bench/services.py [--seconds 4] [--rounds 3]`; `make bench-services` calls it. Prints calls
per second, the median of the rounds, and the ratio to Java.
"""

import argparse
import statistics
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from bench_service import bench_interface

from kit.dubbo_jars import DUBBO_2
from kit.dubbo_program import command, compiled
from kit.process import ServerProcess, free_port
from kit.programs import run_program

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
        before = first.cpu_seconds(), second.cpu_seconds()
        output = run_program(consumer, timeout_s=600)
        spent = first.cpu_seconds() - before[0], second.cpu_seconds() - before[1]
    _report(output, spent)


def _fast(program: list[str]) -> list[str]:
    """With the optimising compiler, which tests do without."""
    return [part for part in program if part != "-XX:TieredStopAtLevel=1"]


def _report(output: str, spent: tuple[float, float]) -> None:
    rates: dict[tuple[str, str], list[int]] = {}
    for line in output.splitlines():
        case, name, rate = line.split()
        rates.setdefault((case, name), []).append(int(rate))
    print("| case | Java, calls/s | Floodmark, calls/s | ratio |\n|---|---:|---:|---:|")
    for case in dict.fromkeys(case for case, _ in rates):
        java = statistics.median(rates[case, "java"])
        ours = statistics.median(rates[case, "floodmark"])
        print(f"| {case} | {java:,.0f} | {ours:,.0f} | {ours / java:.2f} |")
    print(f"\nCPU seconds: Java {spent[0]:.1f}, Floodmark {spent[1]:.1f}")


if __name__ == "__main__":
    main()
