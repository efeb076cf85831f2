"""franz-go's integration suite: fetched from the Go proxy, built into the test cache, and run.

Called by tests/conformance/test_franz_go_suite.py. The suite takes the broker from its environment
and is one program, so its verdicts are read from what it prints.
"""

import json
import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from kit.jars import cache_lock
from kit.programs import run_program

VERSION = "v1.22.2"
_MODULE = f"github.com/twmb/franz-go@{VERSION}"
_VERDICT = re.compile(r"^\s*--- (PASS|FAIL|SKIP): (\S+) ", re.MULTILINE)


@dataclass(frozen=True)
class Verdicts:
    """The names of the suite's tests, subtests included, by how they ended."""

    passed: frozenset[str]
    failed: frozenset[str]
    skipped: frozenset[str]


@dataclass(frozen=True)
class Suite:
    """The built program; it wants to run in the folder of its sources."""

    program: Path
    folder: Path

    def run(
        self,
        bootstrap: str,
        records: int,
        log_path: Path,
        timeout_s: int,
        only: str = ".",
        replicas: int = 1,
    ) -> Verdicts:
        """Run the tests that match `only`; the output stays in `log_path` for who must read it."""
        command = [str(self.program), "-test.v", f"-test.timeout={timeout_s}s"]
        command += ["-test.run", only]
        with log_path.open("wb") as log:
            outcome = subprocess.run(
                command,
                cwd=self.folder,
                env=_environment(bootstrap, records, replicas),
                stdout=log,
                stderr=subprocess.STDOUT,
                timeout=timeout_s + 30,
                check=False,
            )
        output = log_path.read_text(errors="replace")
        verdicts = _verdicts(output)
        if outcome.returncode != 0 and not verdicts.failed:
            raise AssertionError(f"the suite broke off, see {log_path}:\n{output[-4000:]}")
        return verdicts


def build_suite() -> Suite:
    """Go's module and build caches make this quick the second time."""
    with cache_lock("franz-go-suite") as folder:
        download = run_program(["go", "mod", "download", "-json", _MODULE], timeout_s=300)
        sources = Path(json.loads(download)["Dir"]) / "pkg" / "kgo"
        program = folder / f"kgo-{VERSION}.test"
        build = ["go", "test", "-c", "-o", str(program), "."]
        run_program(build, timeout_s=600, cwd=sources)
    return Suite(program, sources)


def _environment(bootstrap: str, records: int, replicas: int) -> dict[str, str]:
    return {
        **os.environ,
        "KGO_SEEDS": bootstrap,
        "KGO_TEST_RF": str(replicas),
        "KGO_TEST_RECORDS": str(records),
        "KGO_LOG_LEVEL": "none",
        # Begins a transaction before the last one's end is answered: Kafka allows it.
        "KGO_TEST_UNSAFE": "1",
    }


def _verdicts(output: str) -> Verdicts:
    found: dict[str, set[str]] = {"PASS": set(), "FAIL": set(), "SKIP": set()}
    for verdict, name in _VERDICT.findall(output):
        found[verdict].add(name)
    return Verdicts(*(frozenset(found[verdict]) for verdict in ("PASS", "FAIL", "SKIP")))
