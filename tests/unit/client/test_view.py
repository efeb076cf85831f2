"""The picture of the cluster changes only forwards."""

import uuid

from floodmark.client.cluster.connection import Address
from floodmark.client.cluster.view import Broker, ClusterView, TopicPartition
from floodmark.vocabulary import NO_LEADER
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

T0 = TopicPartition("t", 0)
TOPIC_ID = uuid.UUID(int=7)


def response(
    leader: int, leader_epoch: int, *, topic_id: uuid.UUID = TOPIC_ID, error: int = 0
) -> MetadataResponse:
    partition = MetadataResponsePartition(
        partition_index=0,
        leader_id=leader,
        leader_epoch=leader_epoch,
        replica_nodes=[1, 2],
        isr_nodes=[leader],
    )
    return MetadataResponse(
        brokers=[
            MetadataResponseBroker(node_id=1, host="a", port=1),
            MetadataResponseBroker(node_id=2, host="b", port=2),
        ],
        topics=[
            MetadataResponseTopic(
                error_code=error, name="t", topic_id=topic_id, partitions=[partition]
            )
        ],
    )


def test_a_lower_leader_epoch_does_not_bring_the_old_leader_back() -> None:
    view = ClusterView().merge(response(2, 5), complete=False)
    assert view.merge(response(1, 4), complete=False).leader_of(T0) == 2


def test_a_topic_made_anew_starts_its_epochs_anew() -> None:
    view = ClusterView().merge(response(2, 5), complete=False)
    made_anew = view.merge(response(1, 0, topic_id=uuid.UUID(int=8)), complete=False)
    assert made_anew.leader_of(T0) == 1


def test_a_topic_with_an_error_is_gone_and_says_why() -> None:
    view = ClusterView().merge(response(2, 5), complete=False)
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    view = view.merge(response(2, 5, error=code), complete=False)
    assert view.leader_of(T0) == NO_LEADER
    assert view.topic_errors["t"] == code


def test_a_complete_answer_drops_what_it_does_not_name() -> None:
    view = ClusterView().merge(response(2, 5), complete=False)
    assert view.merge(MetadataResponse(), complete=False).topics.keys() == {"t"}
    assert not view.merge(MetadataResponse(), complete=True).topics


def test_a_leader_named_by_a_refusal_is_learnt_if_it_is_newer() -> None:
    view = ClusterView().merge(response(2, 5), complete=False)
    third = Broker(3, Address("c", 3))
    assert view.with_leader(T0, 3, 6, third).leader_of(T0) == 3
    assert view.with_leader(T0, 3, 5, third).leader_of(T0) == 2
    assert view.with_leader(T0, 4, 6, None).leader_of(T0) == 2
