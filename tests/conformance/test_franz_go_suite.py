"""franz-go's own integration suite passes against one broker, and against three.

CI sends fewer records through the long tests; `make conformance` runs it whole, with
`FLOODMARK_CONFORMANCE_RECORDS` at franz-go's scale, and prints where the suite's output went.
"""

import os
from pathlib import Path

import pytest

from conformance_kit.franz_go import Suite, build_suite
from crash_kit.targets import ThreeBrokers
from kit.probe import advertises
from kit.target import broker_under_test
from kit.tools import require_tool

RECORDS = int(os.environ.get("FLOODMARK_CONFORMANCE_RECORDS", "5000"))
SUITE_TIMEOUT_S = 900

pytestmark = [pytest.mark.go, pytest.mark.timeout(SUITE_TIMEOUT_S + 900)]

_SHARE_FETCH = 78
_CONSUMER_GROUP_HEARTBEAT = 68

# Tests that end themselves when the broker does not advertise an API, by that API.
_NEED_API = {
    _SHARE_FETCH: (
        "TestConsumeRegexShareSkipsInternal",
        "TestShareGroup",
        "TestShareGroupAckOnClose",
        "TestShareGroupETL",
        "TestShareGroupOffsetsAdmin",
    ),
    _CONSUMER_GROUP_HEARTBEAT: (
        "Test848RegexBrokerResolves",
        "TestGroupETL/range/848",
        "TestGroupETL/sticky/848",
        "TestGroupETL/sticky/848/static",
        "TestGroupSimple/848",
        "TestTxnEtl/range/848",
        "TestTxnEtl/sticky/848",
        "TestTxnEtl/sticky/848/static",
    ),
}
_ALWAYS_SKIPPED = {
    # They want a listener with SCRAM and its address in KGO_TEST_SCRAM_SEEDS.
    "TestSCRAMAuth",
    "TestSCRAMAuthBadCredentials",
    # It wants a broker older than Kafka 0.11.
    "TestIssueProduceBrokerTooOldFailsRecords",
}


@pytest.fixture(scope="module")
def suite() -> Suite:
    require_tool("go")
    return build_suite()


def test_the_whole_suite_passes_against_one_broker(suite: Suite, tmp_path: Path) -> None:
    with broker_under_test(tmp_path) as broker:
        check(suite, broker.bootstrap, tmp_path / "suite.log", replicas=1)


@pytest.mark.soak
def test_the_whole_suite_passes_against_three_brokers_with_three_replicas(
    suite: Suite, tmp_path: Path
) -> None:
    brokers = ThreeBrokers(tmp_path)
    try:
        check(suite, brokers.bootstrap, tmp_path / "suite.log", replicas=3)
    finally:
        brokers.stop()


def check(suite: Suite, bootstrap: str, log_path: Path, replicas: int) -> None:
    expected_skips = set(_ALWAYS_SKIPPED)
    port = int(bootstrap.split(",", maxsplit=1)[0].rpartition(":")[2])
    for api_key, names in _NEED_API.items():
        if not advertises(port, api_key):
            expected_skips.update(names)
    verdicts = suite.run(bootstrap, RECORDS, log_path, SUITE_TIMEOUT_S, replicas=replicas)
    print(f"{len(verdicts.passed)} passed, output in {log_path}")
    assert not verdicts.failed, f"see {log_path}"
    assert verdicts.skipped == expected_skips
    assert "TestTxnEtl" in verdicts.passed
