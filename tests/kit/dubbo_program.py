"""Java programs on Dubbo, compiled against the sources that `floodmark service stub` writes."""

import hashlib
import subprocess
from collections.abc import Sequence
from pathlib import Path

from floodmark.service.interface import Interface
from floodmark.service.stub import java_sources
from kit.dubbo_jars import JAVA_OPTIONS, dubbo_jars
from kit.jars import cache_lock, classpath


def compiled(version: str, interface: Interface, *programs: Path) -> Path:
    """The folder of classes of the programs and the interface's stub."""
    jars = dubbo_jars(version)
    stub = java_sources(interface)
    digest = hashlib.sha256(str(jars).encode())
    for text in (*stub.values(), *(program.read_text() for program in programs)):
        digest.update(text.encode())
    with cache_lock(f"dubbo-{digest.hexdigest()[:16]}") as folder:
        if not (folder / "done").exists():
            sources = [_written(folder / "stub" / path, text) for path, text in stub.items()]
            command = ["javac", "-nowarn", "-cp", classpath(jars), "-d", str(folder / "classes")]
            command += map(str, [*sources, *programs])
            outcome = subprocess.run(
                command, capture_output=True, text=True, check=False, timeout=120
            )
            assert outcome.returncode == 0, outcome.stderr
            (folder / "done").touch()
    return folder / "classes"


def _written(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def command(version: str, classes: Path, main: str, arguments: Sequence[str]) -> list[str]:
    """How to run one of the programs."""
    java = ["java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", *JAVA_OPTIONS]
    java += ["-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "-Duser.home=/tmp/floodmark-dubbo"]
    java += ["-Ddubbo.service.shutdown.wait=1", "-Djava.net.preferIPv4Stack=true"]
    return [*java, "-cp", f"{classes}:{classpath(dubbo_jars(version))}", main, *arguments]
