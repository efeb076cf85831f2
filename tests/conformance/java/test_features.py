"""Kafka's FeatureCommand turns KIP-890's second version and KIP-848 off and on; clients follow."""

import json
import re
from pathlib import Path

import pytest

from conformance_kit.franz_go import Suite, build_suite
from kit.broker import Broker
from kit.kafka_tools import dump_segments, kafka_tool
from kit.target import broker_under_test
from kit.tools import require_tool

pytestmark = [pytest.mark.java, pytest.mark.go, pytest.mark.timeout(400)]

_TOOLS = "org.apache.kafka.tools."
RECORDS = 500
SUITE_RECORDS = 2000


@pytest.fixture(scope="module")
def suite() -> Suite:
    require_tool("go", "java", "mvn")
    return build_suite()


def test_transactions_work_at_each_version_of_the_feature(suite: Suite, tmp_path: Path) -> None:
    with broker_under_test(tmp_path) as broker:
        assert finalized(broker, "transaction.version") == 2
        run(broker, "VerifiableProducer", "--topic", "source", "--max-messages", str(RECORDS))
        run(broker, "FeatureCommand", "downgrade", "--feature", "transaction.version=0")
        assert finalized(broker, "transaction.version") == 0
        copy(broker, "old")
        verdicts = suite.run(
            broker.bootstrap, SUITE_RECORDS, tmp_path / "suite.log", 200, "^TestTxnEtl$"
        )
        assert "TestTxnEtl" in verdicts.passed
        assert not verdicts.failed
    # The broker starts again with what was set.
    with broker_under_test(tmp_path) as broker:
        assert finalized(broker, "transaction.version") == 0
        run(broker, "FeatureCommand", "upgrade", "--feature", "transaction.version=2")
        copy(broker, "new")
    # The first format of the transaction log does not say what the client spoke.
    assert client_versions(broker, "old") == set()
    assert client_versions(broker, "new") == {2}


def copy(broker: Broker, name: str) -> None:
    copied = kafka_tool(
        _TOOLS + "TransactionalMessageCopier",
        *("--broker-list", broker.bootstrap, "--input-topic", "source", "--output-topic", name),
        *("--input-partition", "0", "--consumer-group", name, "--transactional-id", name),
        *("--transaction-size", "50", "--max-messages", str(RECORDS), "--enable-random-aborts"),
    )
    assert json.loads(copied.splitlines()[-1])["consumed"] == RECORDS


def client_versions(broker: Broker, transactional_id: str) -> set[int]:
    """The versions of the protocol that the transaction log says the client spoke."""
    logs = [
        log for log in broker.data_dir.glob("__transaction_state-*/*.log") if log.stat().st_size
    ]
    lines = dump_segments(logs, "--transaction-log-decoder").splitlines()
    ours = [line for line in lines if f'"transactionalId":"{transactional_id}"' in line]
    return {int(found) for found in re.findall(r'"clientTransactionVersion":(\d+)', "".join(ours))}


def finalized(broker: Broker, feature: str) -> int:
    described = run(broker, "FeatureCommand", "describe")
    found = re.search(rf"Feature: {feature}\s.*FinalizedVersionLevel: (\d+)", described)
    assert found is not None, described
    return int(found.group(1))


def run(broker: Broker, tool: str, *arguments: str) -> str:
    return kafka_tool(_TOOLS + tool, "--bootstrap-server", broker.bootstrap, *arguments)
