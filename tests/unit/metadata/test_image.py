"""The immutable picture of the cluster and the differences between two of them."""

from __future__ import annotations

from uuid import UUID

from floodmark.metadata.image import (
    ConfigResource,
    Features,
    ImageChange,
    MetadataImage,
    PartitionImage,
    TopicImage,
    difference,
)


def topic(name: str, number: int, partitions: int = 2) -> TopicImage:
    return TopicImage(
        name,
        UUID(int=number),
        tuple(PartitionImage(1, 0, 0, (1,), (1,)) for _ in range(partitions)),
    )


def image_of(*topics: TopicImage, base: MetadataImage | None = None) -> MetadataImage:
    """An image with these topics, besides those of `base`."""
    change = ImageChange(topics={topic.name: topic for topic in topics})
    return (base or MetadataImage()).apply(change)


def test_a_change_leaves_the_old_image_alone_and_shares_other_topics():
    old = image_of(topic("a", 1), topic("b", 2))
    new = image_of(topic("b", 2, partitions=3), base=old)
    assert len(old.topics["b"].partitions) == 2
    assert new.topics["a"] is old.topics["a"]
    assert new.topics_by_id[UUID(int=2)] is new.topics["b"]


def test_a_deleted_topic_is_gone_by_name_and_by_id():
    image = image_of(topic("a", 1)).apply(ImageChange(topics={"a": None}))
    assert not image.topics
    assert not image.topics_by_id


def test_difference_lists_created_deleted_and_changed():
    old = image_of(topic("gone", 1), topic("stays", 2))
    led = old.topics["stays"].with_partitions({1: PartitionImage(2, 1, 1, (1, 2), (2,))})
    change = ImageChange(
        topics={"gone": None, "stays": led, "new": topic("new", 3)},
        configs={ConfigResource("topic", "new"): {"retention.ms": "1"}},
        features=Features({"group.version": 1}, 1),
    )
    new = old.apply(change)
    for delta in (difference(old, new), difference(old, new, change)):
        assert [t.name for t in delta.created_topics] == ["new"]
        assert [t.name for t in delta.deleted_topics] == ["gone"]
        ((changed, index, before, after),) = delta.changed_partitions
        assert (changed.name, index, after.leader) == ("stays", 1, 2)
        assert before is old.topics["stays"].partitions[1]
        assert delta.changed_configs == (("topic", "new"),)
        assert delta.features_changed


def test_a_topic_recreated_under_its_name_is_deleted_and_created():
    old = image_of(topic("a", 1))
    new = image_of(topic("a", 2), base=old)
    delta = difference(old, new)
    assert [t.topic_id for t in delta.deleted_topics] == [UUID(int=1)]
    assert [t.topic_id for t in delta.created_topics] == [UUID(int=2)]
    assert UUID(int=1) not in new.topics_by_id


def test_added_partitions_are_changes_without_a_past():
    old = image_of(topic("a", 1, partitions=1))
    delta = difference(old, image_of(topic("a", 1, partitions=3), base=old))
    assert [(c.partition, c.old) for c in delta.changed_partitions] == [(1, None), (2, None)]


def test_equal_images_have_an_empty_difference():
    image = image_of(topic("a", 1))
    assert difference(image, image).is_empty
    assert difference(image, image_of(topic("a", 1), base=image)).is_empty


def test_partition_and_config_lookups_answer_nothing_for_what_is_unknown():
    image = image_of(topic("a", 1))
    assert image.partition("a", 2) is None
    assert image.partition("b", 0) is None
    assert image.config("topic", "a") == {}
    assert not image.is_live(1)
