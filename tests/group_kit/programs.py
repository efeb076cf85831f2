"""How each client's member program is made ready and started."""

import sys
from collections.abc import Callable
from pathlib import Path

from kit.jars import KAFKA_4, cache_lock, classpath, client_jars
from kit.java_program import compiled
from kit.npm import npm_program
from kit.programs import run_program
from kit.tools import require_tool

_FOLDER = Path(__file__).parent.parent / "clients" / "groups"
_PACKAGES = _FOLDER.parent / "javascript" / "package.json"


def _java() -> list[str]:
    require_tool("java", "mvn")
    jars = client_jars(KAFKA_4)
    classes = compiled(_FOLDER / "GroupMember.java", jars)
    flags = ["-Xmx128m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
    return ["java", *flags, "-cp", f"{classes}:{classpath(jars)}", "GroupMember"]


def _franz_go() -> list[str]:
    require_tool("go")
    with cache_lock("go") as folder:
        built = folder / "franz-go-member"
        build = ["go", "build", "-o", str(built), "."]
        run_program(build, timeout_s=240, cwd=_FOLDER / "franz_go")
    return [str(built)]


def _kafkajs() -> list[str]:
    return ["node", str(npm_program(_FOLDER / "kafkajs_member.js", _PACKAGES))]


def _python(name: str) -> list[str]:
    return [sys.executable, str(_FOLDER / f"{name}_member.py")]


PROGRAMS: dict[str, Callable[[], list[str]]] = {
    "java": _java,
    "librdkafka": lambda: _python("librdkafka"),
    "franz-go": _franz_go,
    "kafkajs": _kafkajs,
    "kafka-python": lambda: _python("kafka_python"),
    "aiokafka": lambda: _python("aiokafka"),
}
