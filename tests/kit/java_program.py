"""Compiles a single-file Java program against a set of jars, once, and runs it."""

import hashlib
import subprocess
from pathlib import Path

from kit.jars import cache_lock, classpath
from kit.programs import run_program


def run_java(source: Path, jars: Path, *arguments: str, timeout_s: float = 90) -> str:
    """Run the class that `source` holds; returns its output, an exit code other than 0 raises."""
    classes = compiled(source, jars)
    command = ["java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
    command += ["-cp", f"{classes}:{classpath(jars)}", source.stem, *arguments]
    return run_program(command, timeout_s)


def compiled(source: Path, jars: Path) -> Path:
    """The folder of the classes that `source` holds, for who starts them himself."""
    digest = hashlib.sha256(source.read_bytes() + str(jars).encode()).hexdigest()[:16]
    with cache_lock(f"classes-{digest}") as folder:
        if not (folder / f"{source.stem}.class").exists():
            command = ["javac", "-cp", classpath(jars), "-d", str(folder), str(source)]
            subprocess.run(command, check=True, capture_output=True, timeout=120)
    return folder
