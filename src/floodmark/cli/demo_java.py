"""Calls the demo's table from a real Java consumer, built as a temporary Maven project.

Called by demo.py if Maven and a JDK are installed. On the first run Maven downloads Dubbo, which
may take longer than the demo. The demo then reports that and finishes without it.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from floodmark.service.interface import Interface

MAVEN_SECONDS: Final = 60.0
CALL_SECONDS: Final = 30.0

# The dependencies docs/services.md gives Java teams.
_DEPENDENCIES: Final = (
    ("org.apache.dubbo", "dubbo", "3.3.6"),
    ("org.apache.curator", "curator-x-discovery", "5.1.0"),
    ("org.apache.zookeeper", "zookeeper", "3.7.2"),
    ("org.slf4j", "slf4j-nop", "1.7.36"),
)

_POM: Final = """<project xmlns="http://maven.apache.org/POM/4.0.0">
<modelVersion>4.0.0</modelVersion>
<groupId>dev.floodmark.demo</groupId><artifactId>demo</artifactId><version>1</version>
<properties>
  <maven.compiler.source>11</maven.compiler.source>
  <maven.compiler.target>11</maven.compiler.target>
  <project.build.sourceEncoding>UTF-8</project.build.sourceEncoding>
</properties>
<dependencies>
{dependencies}
</dependencies>
</project>
"""

_MAIN: Final = """import org.apache.dubbo.config.*;

public class Demo {{
    public static void main(String[] arguments) {{
        ApplicationConfig application = new ApplicationConfig("demo");
        application.setQosEnable(false);
        ReferenceConfig<{interface}> reference = new ReferenceConfig<>();
        reference.setApplication(application);
        reference.setRegistry(new RegistryConfig("N/A"));
        reference.setInterface({interface}.class);
        reference.setUrl(arguments[0]);
        for (var row : reference.get().scan(null, 10)) {{
            System.out.println(String.join("\\t", {columns}));
        }}
        System.out.flush();
        Runtime.getRuntime().halt(0);
    }}
}}
"""


class NotShown(Exception):
    """The reason the Java consumer did not run."""


def missing_tools() -> list[str]:
    return [tool for tool in ("mvn", "javac", "java") if shutil.which(tool) is None]


def java_rows(interface: Interface, fields: list[str], url: str) -> list[list[str]]:
    """The rows a Java consumer gets from `scan(null, 10)`, each as a list of texts."""
    with tempfile.TemporaryDirectory(prefix="floodmark-demo-java-") as name:
        project = Path(name)
        _write_project(project, interface, fields)
        output = f"-Dmdep.outputFile={project / 'classpath.txt'}"
        maven = ["mvn", "-q", "-B", "compile", "dependency:build-classpath", output]
        _run(maven, project, MAVEN_SECONDS)
        classes = f"{project / 'target' / 'classes'}:{(project / 'classpath.txt').read_text()}"
        home = f"-Duser.home={project}"  # where Dubbo keeps its caches
        printed = _run(["java", home, "-cp", classes, "Demo", url], project, CALL_SECONDS)
    return [line.split("\t") for line in printed.splitlines() if "\t" in line]


def _write_project(project: Path, interface: Interface, fields: list[str]) -> None:
    from floodmark.service.hessian.classes import java_name
    from floodmark.service.stub import java_sources

    dependencies = "\n".join(
        f"<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId>"
        f"<version>{version}</version></dependency>"
        for group, artifact, version in _DEPENDENCIES
    )
    (project / "pom.xml").write_text(_POM.format(dependencies=dependencies))
    getters = [java_name(f"get_{field}") for field in fields]
    columns = ", ".join(f"String.valueOf(row.{getter}())" for getter in getters)
    main = _MAIN.format(interface=interface.name, columns=columns)
    sources = {"Demo.java": main, **java_sources(interface)}
    for path, text in sources.items():
        target = project / "src/main/java" / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)


def _run(command: list[str], folder: Path, seconds: float) -> str:
    try:
        outcome = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=seconds, check=False
        )
    except subprocess.TimeoutExpired:
        raise NotShown(f"{command[0]} did not finish within {seconds:.0f} s") from None
    if outcome.returncode != 0:
        lines = (outcome.stdout + outcome.stderr).strip().splitlines()
        raise NotShown(f"{command[0]} failed: {' '.join(lines[:2]) or outcome.returncode}")
    return outcome.stdout
