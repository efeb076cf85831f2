"""Apache Dubbo from Maven Central, in the two lines that Java teams run."""

from pathlib import Path

from kit.jars import jars

DUBBO_2 = "2.7.23"
DUBBO_3 = "3.3.6"

# 2.7's own ZooKeeper client, 3.4.13, does not run on Java 17.
_ARTIFACTS = {
    DUBBO_2: (
        f"org.apache.dubbo:dubbo:{DUBBO_2}",
        "org.apache.curator:curator-recipes:4.2.0",
        "org.apache.curator:curator-x-discovery:4.2.0",
        "org.apache.zookeeper:zookeeper:3.5.10",
        "org.slf4j:slf4j-simple:1.7.36",
    ),
    DUBBO_3: (
        f"org.apache.dubbo:dubbo:{DUBBO_3}",
        "org.apache.curator:curator-recipes:5.1.0",
        "org.apache.curator:curator-x-discovery:5.1.0",
        "org.apache.zookeeper:zookeeper:3.7.2",
        "io.netty:netty-handler:4.2.2.Final",
        "org.slf4j:slf4j-simple:1.7.36",
    ),
}

JAVA_OPTIONS = [
    option
    for package in ("java.lang", "java.math", "java.util", "java.time", "java.text")
    for option in ("--add-opens", f"java.base/{package}=ALL-UNNAMED")
]
"""Dubbo's reflection needs them on Java 17."""


def dubbo_jars(version: str) -> Path:
    """Dubbo with what its ZooKeeper registry needs; returns the folder of jars."""
    return jars(*_ARTIFACTS[version])
