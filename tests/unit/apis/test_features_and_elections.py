"""UpdateFeatures and ElectLeaders in every version."""

from collections.abc import AsyncIterator

import pytest

from floodmark.client.cluster.connection import Connection
from floodmark.testing.broker_thread import BrokerThread
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages.api_versions import ApiVersionsRequest
from floodmark.wire.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    TopicPartitions,
)
from floodmark.wire.messages.update_features import (
    FeatureUpdateKey,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from floodmark.wire.numbers import UpgradeType

FEATURE = "transaction.version"


@pytest.fixture
async def connection(floodmark: BrokerThread) -> AsyncIterator[Connection]:
    host, port = floodmark.bootstrap_servers.split(":")
    connection = await Connection.open(host, int(port))
    yield connection
    await connection.close()


async def finalized(connection: Connection) -> int:
    response = await connection.request(
        ApiVersionsRequest(client_software_name="t", client_software_version="1")
    )
    return {f.name: f.max_version_level for f in response.finalized_features}[FEATURE]


async def update(
    connection: Connection, version: int, *keys: FeatureUpdateKey, validate_only: bool = False
) -> UpdateFeaturesResponse:
    request = UpdateFeaturesRequest(feature_updates=list(keys), validate_only=validate_only)
    response: UpdateFeaturesResponse = await connection.request(request, max_version=version)
    return response


def downgrade(version: int, level: int) -> FeatureUpdateKey:
    if version == 0:
        return FeatureUpdateKey(feature=FEATURE, max_version_level=level, allow_downgrade=True)
    return FeatureUpdateKey(
        feature=FEATURE, max_version_level=level, upgrade_type=UpgradeType.UNSAFE_DOWNGRADE
    )


@pytest.mark.parametrize("version", [0, 1, 2])
async def test_a_feature_goes_down_only_when_asked_to(connection: Connection, version: int) -> None:
    refused = await update(
        connection, version, FeatureUpdateKey(feature=FEATURE, max_version_level=1)
    )
    assert refused.error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert FEATURE in (refused.error_message or "")
    assert await finalized(connection) == 2
    done = await update(connection, version, downgrade(version, 1))
    assert done.error_code == ErrorCode.NONE
    assert [r.feature for r in done.results] == ([FEATURE] if version < 2 else [])
    assert await finalized(connection) == 1
    await update(connection, version, FeatureUpdateKey(feature=FEATURE, max_version_level=2))
    assert await finalized(connection) == 2


async def test_one_feature_that_cannot_move_holds_back_the_others(connection: Connection) -> None:
    unknown = FeatureUpdateKey(feature="no.such.version", max_version_level=1)
    refused = await update(connection, 2, downgrade(2, 1), unknown)
    assert refused.error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert await finalized(connection) == 2


@pytest.mark.parametrize(
    ("level", "upgrade_type", "reason"),
    [
        (2, 0, "The controller does not support the given upgrade type."),
        (9, 4, "The controller does not support the given upgrade type."),
        (-1, 1, "A feature version cannot be less than 0."),
        (32767, 1, "Local controller only supports versions 0-2"),
    ],
)
async def test_a_level_that_cannot_be_is_refused_in_the_words_that_tools_show(
    connection: Connection, level: int, upgrade_type: int, reason: str
) -> None:
    key = FeatureUpdateKey(feature=FEATURE, max_version_level=level, upgrade_type=upgrade_type)
    refused = await update(connection, 2, key)
    assert refused.error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert refused.error_message == (
        "The update failed for all features since the following feature had an error: "
        f"Invalid update version {level} for feature {FEATURE}. {reason}"
    )


async def test_a_mere_question_changes_nothing(connection: Connection) -> None:
    done = await update(connection, 2, downgrade(2, 1), validate_only=True)
    assert done.error_code == ErrorCode.NONE
    assert await finalized(connection) == 2


async def elect(connection: Connection, version: int, **fields: object) -> ElectLeadersResponse:
    request = ElectLeadersRequest(**fields)  # type: ignore[arg-type]
    response: ElectLeadersResponse = await connection.request(request, max_version=version)
    return response


@pytest.mark.parametrize("version", [0, 1, 2])
async def test_each_partition_is_answered_for_itself(
    connection: Connection, floodmark_topic: str, version: int
) -> None:
    wanted = [
        TopicPartitions(topic=floodmark_topic, partitions=[0, 7]),
        TopicPartitions(topic="missing", partitions=[0]),
    ]
    response = await elect(connection, version, topic_partitions=wanted)
    codes = {
        (topic.topic, answer.partition_id): answer.error_code
        for topic in response.replica_election_results
        for answer in topic.partition_result
    }
    assert codes == {
        (floodmark_topic, 0): ErrorCode.ELECTION_NOT_NEEDED,
        (floodmark_topic, 7): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ("missing", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }


async def test_of_all_partitions_only_those_in_need_are_answered(
    connection: Connection, floodmark_topic: str
) -> None:
    response = await elect(connection, 2, topic_partitions=None)
    assert response.error_code == ErrorCode.NONE
    assert response.replica_election_results == []


async def test_an_election_of_an_unknown_kind_is_refused(connection: Connection) -> None:
    response = await elect(connection, 2, election_type=9, topic_partitions=None)
    assert response.error_code == ErrorCode.INVALID_REQUEST
