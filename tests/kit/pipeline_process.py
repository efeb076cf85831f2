"""`floodmark pipeline run` as a process that tests may kill, and a Spark cluster to run it on."""

import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Self

import pyspark

from kit.process import ServerProcess, free_port
from kit.tools import require_tool

# The folders of Python and of Spark for what is temporary.
_TEMPORARY = ("TMPDIR", "SPARK_LOCAL_DIRS")
_JVM = ["-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]


def _environment(folder: Path) -> dict[str, str]:
    """Without the Python of a session in this process, whose files go with it."""
    own = {k: v for k, v in os.environ.items() if not k.startswith("PYSPARK_")}
    return {**own, **dict.fromkeys(_TEMPORARY, str(folder))}


class PipelineProcess:
    """A driver in a session of its own, so that all of it can be killed at once."""

    def __init__(
        self,
        arguments: Sequence[str],
        log_path: Path,
        command: Sequence[str] | None = None,
        folder: Path | None = None,
    ) -> None:
        """`command` starts something else than `floodmark pipeline run`, such as spark-submit."""
        self.log_path = log_path
        program = str(Path(sys.executable).with_name("floodmark"))
        command = [*(command or (program, "pipeline", "run")), *arguments]
        with log_path.open("ab") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                # What a killed driver leaves behind goes with the test's own folder.
                env=_environment(log_path.parent),
                cwd=folder,
                start_new_session=True,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.kill()

    def is_running(self) -> bool:
        return self._process.poll() is None

    def wait(self, timeout_s: float) -> int:
        return self._process.wait(timeout_s)

    def interrupt(self) -> None:
        """Ctrl-C."""
        self._process.send_signal(signal.SIGINT)

    def kill(self) -> None:
        """kill -9 of the driver and its JVM; Python workers are left to notice by themselves."""
        if self.is_running():
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def output(self) -> str:
        return self.log_path.read_text(errors="replace")


@contextmanager
def spark_cluster(
    folder: Path, workers: int = 2, hidden: Sequence[Path] = ()
) -> Iterator[tuple[str, list[ServerProcess]]]:
    """A standalone master with workers, from the classes that PySpark brings; its address.

    Workers do not see what is below the `hidden` folders: they are machines without it.
    """
    port = free_port()
    address = f"spark://127.0.0.1:{port}"
    arguments = ["--host", "127.0.0.1", "--port", str(port), "--webui-port", str(free_port())]
    running: list[ServerProcess] = []
    try:
        running.append(_start(folder, "master", "org.apache.spark.deploy.master.Master", arguments))
        running[0].wait_until(lambda: "I have been elected leader" in running[0].output())
        for number in range(workers):
            options = ["--host", "127.0.0.1", "--cores", "1", "--memory", "1g"]
            options += ["--work-dir", str(folder / f"work-{number}")]
            options += ["--webui-port", str(free_port()), address]
            worker = _start(folder, f"worker-{number}", _WORKER, options, hidden)
            running.append(worker)
            worker.wait_until(lambda w=worker: "Successfully registered" in w.output())
        yield address, running[1:]
    finally:
        for process in reversed(running):
            process.stop()


_WORKER = "org.apache.spark.deploy.worker.Worker"


def _start(
    folder: Path,
    name: str,
    main_class: str,
    arguments: Sequence[str],
    hidden: Sequence[Path] = (),
) -> ServerProcess:
    home = folder / "spark" if hidden else Path(pyspark.__file__).parent
    jars = home / "jars"
    settings = folder / f"{name}.log4j2.properties"
    settings.write_text(
        "rootLogger.level = info\nrootLogger.appenderRef.out.ref = out\n"
        "appender.out.type = Console\nappender.out.name = out\n"
        "appender.out.layout.type = PatternLayout\nappender.out.layout.pattern = %m%n\n"
    )
    opens = [f"--add-opens=java.base/{name}=ALL-UNNAMED" for name in _OPENED]
    flags = [*_JVM, *opens, f"-Dlog4j2.configurationFile=file:{settings}"]
    command = ["java", *flags, "-cp", f"{jars}/*", main_class, *arguments]
    # Workers build the command of an executor by these, which the start scripts would set.
    environment = {"SPARK_HOME": str(jars.parent), "SPARK_SCALA_VERSION": "2.13"}
    environment |= dict.fromkeys(_TEMPORARY, str(folder))
    if hidden:
        home.mkdir(exist_ok=True)
        command = _without(hidden, home, command)
    return ServerProcess(command, folder / f"{name}.out", environment)


def _without(hidden: Sequence[Path], home: Path, command: Sequence[str]) -> list[str]:
    """The command in a mount namespace where these folders are empty and Spark is in `home`."""
    require_tool("unshare", "mount")
    steps = [f"mount --bind {shlex.quote(str(Path(pyspark.__file__).parent))} {home}"]
    steps += [f"mount -t tmpfs none {shlex.quote(str(path))}" for path in hidden]
    script = " && ".join([*steps, f"exec {shlex.join(command)}"])
    return ["unshare", "--mount", "--propagation", "private", "sh", "-c", script]


# What Spark's own start scripts open to its libraries.
_OPENED = ("java.lang", "java.nio", "java.util", "java.util.concurrent", "sun.nio.ch", "java.net")


def executors_of(workers: Sequence[ServerProcess]) -> list[int]:
    """The executor processes that these workers have started."""
    parents = {worker.pid for worker in workers}
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = status.read_text().rpartition(")")[2].split()
            command = (status.parent / "cmdline").read_bytes()
        except OSError:
            continue  # it has ended meanwhile
        if int(fields[1]) in parents and b"CoarseGrainedExecutorBackend" in command:
            found.append(int(status.parent.name))
    return found
