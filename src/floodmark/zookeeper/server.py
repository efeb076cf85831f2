"""Plans a real ZooKeeper from local jars: one server, or an ensemble on loopback.

For trials and tests: `floodmark zookeeper` and tests/kit/zookeeper.py start the planned servers.
PySpark's jars contain a complete ZooKeeper 3.9, and so do the libs folders of Kafka 3.9 and of
ZooKeeper itself.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

MAIN_CLASS = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
HOST = "127.0.0.1"
TICK_MS = 500
MAX_SESSION_MS = 60_000

_CONFIG = """tickTime={tick_ms}
initLimit=20
syncLimit=10
dataDir={folder}/data
admin.enableServer=false
minSessionTimeout={min_session_ms}
maxSessionTimeout={max_session_ms}
4lw.commands.whitelist=ruok,srvr
"""


class NoJars(Exception):
    """No ZooKeeper was found among the jars."""


@dataclass(frozen=True, slots=True)
class Peer:
    """The ports of one server: for clients, for peers, and for leader election."""

    client_port: int
    peer_port: int
    election_port: int


@dataclass(frozen=True, slots=True)
class ServerPlan:
    number: int
    port: int
    config: Path
    command: list[str]


def pyspark_jars() -> Path | None:
    """The jars of the installed PySpark, which is not imported."""
    found = importlib.util.find_spec("pyspark")
    if found is None or found.origin is None:
        return None
    return Path(found.origin).parent / "jars"


def check_jars(folder: Path) -> Path:
    if not any(folder.glob("zookeeper-[0-9]*.jar")):
        raise NoJars(f"there is no zookeeper-*.jar in {folder}")
    return folder


def plan(
    folder: Path, jars: Path, peers: Sequence[Peer], *, tick_ms: int = TICK_MS
) -> list[ServerPlan]:
    """Writes the configuration of each server below `folder`. Several servers form an ensemble."""
    plans = []
    for number, peer in enumerate(peers, 1):
        home = folder / f"server-{number}" if len(peers) > 1 else folder
        config = _write_config(home.absolute(), number, peers, tick_ms)
        plans.append(ServerPlan(number, peer.client_port, config, _command(jars, config)))
    return plans


def _write_config(home: Path, number: int, peers: Sequence[Peer], tick_ms: int) -> Path:
    (home / "data").mkdir(parents=True, exist_ok=True)
    text = _CONFIG.format(
        folder=home,
        tick_ms=tick_ms,
        min_session_ms=2 * tick_ms,
        max_session_ms=MAX_SESSION_MS,
    )
    if len(peers) == 1:
        text += f"clientPortAddress={HOST}\nclientPort={peers[0].client_port}\n"
    else:
        text += "".join(
            f"server.{index}={HOST}:{peer.peer_port}:{peer.election_port};{HOST}:{peer.client_port}\n"
            for index, peer in enumerate(peers, 1)
        )
        (home / "data" / "myid").write_text(f"{number}\n")
    config = home / "zoo.cfg"
    config.write_text(text)
    return config


def _command(jars: Path, config: Path) -> list[str]:
    # Small and quick to start: the cluster's metadata is a few megabytes.
    java = ["java", "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
    return [*java, "-cp", f"{jars}/*", MAIN_CLASS, str(config)]
