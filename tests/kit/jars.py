"""Class paths of Maven artifacts, resolved once into a cache folder outside the source tree.

Called by apache_kafka.py and the Java tests. The cache is `$FLOODMARK_TEST_CACHE`, else
`~/.cache/floodmark`; a finished set of jars is marked, so an interrupted download is repeated.
"""

import fcntl
import hashlib
import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

KAFKA_4 = "4.3.0"
KAFKA_3 = "3.9.1"

# 4.3.0 leaves the logging backend to its start scripts; 3.9.1 brings reload4j along.
_LOGGING = {KAFKA_4: ["org.slf4j:slf4j-simple:1.7.36"], KAFKA_3: []}

_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
<modelVersion>4.0.0</modelVersion>
<groupId>dev.floodmark.tests</groupId><artifactId>jars</artifactId><version>1</version>
<packaging>pom</packaging>
<dependencies>
{dependencies}
</dependencies>
</project>
"""


def cache_dir() -> Path:
    configured = os.environ.get("FLOODMARK_TEST_CACHE")
    return Path(configured) if configured else Path.home() / ".cache" / "floodmark"


@contextmanager
def cache_lock(name: str) -> Iterator[Path]:
    """One process at a time fills the cache entry `name` (tests run under xdist)."""
    folder = cache_dir() / name
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield folder


def kafka_jars(version: str) -> Path:
    """The broker and the tools of one Apache Kafka release; returns the folder of jars."""
    return jars(
        f"org.apache.kafka:kafka_2.13:{version}",
        f"org.apache.kafka:kafka-tools:{version}",
        *_LOGGING[version],
    )


def client_jars(version: str) -> Path:
    """kafka-clients alone, with its compression libraries: what a Java user depends on."""
    return jars(f"org.apache.kafka:kafka-clients:{version}", "org.slf4j:slf4j-nop:1.7.36")


def jars(*artifacts: str, without: Sequence[str] = ()) -> Path:
    """Fetch `group:artifact:version[:classifier]` artifacts with all they need into one folder,
    but for dependencies `without`, each a `group:artifact`."""
    digest = hashlib.sha256("\n".join([*artifacts, *without]).encode()).hexdigest()[:16]
    with cache_lock(f"jars-{digest}") as folder:
        done = folder / "artifacts.txt"
        if not done.exists():
            _copy_dependencies(artifacts, without, folder)
            done.write_text("\n".join(artifacts) + "\n")
    return folder


def classpath(folder: Path) -> str:
    return f"{folder}/*"


def _copy_dependencies(artifacts: tuple[str, ...], without: Sequence[str], folder: Path) -> None:
    pom = folder / "pom.xml"
    dependencies = "\n".join(_dependency(artifact, without) for artifact in artifacts)
    pom.write_text(_POM.format(dependencies=dependencies))
    command = ["mvn", "-q", "-B", "-f", str(pom), "dependency:copy-dependencies"]
    command += [f"-DoutputDirectory={folder}", "-DincludeScope=runtime"]
    outcome = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    if outcome.returncode != 0:
        raise RuntimeError(f"Maven could not fetch {', '.join(artifacts)}:\n{outcome.stdout}")


def _dependency(artifact: str, without: Sequence[str]) -> str:
    group_id, artifact_id, version, *classifier = artifact.split(":")
    return (
        f"<dependency><groupId>{group_id}</groupId><artifactId>{artifact_id}</artifactId>"
        f"<version>{version}</version>"
        + "".join(f"<classifier>{name}</classifier>" for name in classifier)
        + _exclusions(without)
        + "</dependency>"
    )


def _exclusions(without: Sequence[str]) -> str:
    if not without:
        return ""
    pairs = [name.split(":") for name in without]
    inner = "".join(
        f"<exclusion><groupId>{group_id}</groupId><artifactId>{artifact_id}</artifactId></exclusion>"
        for group_id, artifact_id in pairs
    )
    return f"<exclusions>{inner}</exclusions>"
