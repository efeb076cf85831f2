"""`format("floodmark")` over TLS and SASL, with every mechanism: batches, streams, exactly once."""

from collections.abc import Iterator

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from floodmark.pipeline.datasource.batch_writers import exactly_once
from floodmark.security.sasl import MECHANISMS
from floodmark.testing import Broker

COUNT = 20


@pytest.fixture(scope="module")
def secure() -> Iterator[Broker]:
    with Broker(security="SASL_SSL") as running:
        yield running


def options(broker: Broker, settings: dict[str, str]) -> dict[str, str]:
    given = {"bootstrap.servers": broker.bootstrap_servers, **settings}
    return {f"kafka.{name}": value for name, value in given.items()}


def copied(spark: SparkSession, topic: str, given: dict[str, str]) -> list[bytes]:
    """Rows that a batch has written and another one reads."""
    rows = spark.range(COUNT).selectExpr("CAST(id AS STRING) AS value")
    rows.write.format("floodmark").options(**given, topic=topic).mode("append").save()
    read = spark.read.format("floodmark").options(**given, subscribe=topic).load()
    return sorted(bytes(row.value) for row in read.select("value").collect())


EXPECTED = sorted(b"%d" % number for number in range(COUNT))


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_batches_are_written_and_read_with_every_mechanism(spark, secure, topic, mechanism):
    given = options(secure, secure.security.java(mechanism))
    assert copied(spark, topic, given) == EXPECTED


def test_batches_are_written_and_read_with_a_client_certificate(spark, topic):
    with Broker(security="SSL", settings={"ssl.client.auth": "required"}) as broker:
        pem = str(broker.security.client_certificate("spark"))
        store = {"ssl.keystore.type": "PEM", "ssl.keystore.location": pem}
        given = options(broker, {**broker.security.java(), **store})
        assert copied(spark, topic, given) == EXPECTED


def test_a_stream_is_copied_exactly_once_over_tls(spark, secure, topic, checkpoint):
    given = options(secure, secure.security.java("SCRAM-SHA-512"))
    copied(spark, topic, given)
    write = exactly_once(query="secure", options={**given, "topic": f"{topic}-copy"})
    stream = spark.readStream.format("floodmark").options(
        **given, subscribe=topic, startingOffsets="earliest"
    )
    query = (
        stream.load()
        .select("value")
        .writeStream.foreachBatch(write)
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    read = spark.read.format("floodmark").options(**given, subscribe=f"{topic}-copy").load()
    assert sorted(bytes(row.value) for row in read.collect()) == EXPECTED


def test_a_wrong_password_is_told_and_shown_nowhere(spark, secure, topic):
    settings = secure.security.java("SCRAM-SHA-256")
    jaas = settings["sasl.jaas.config"].replace(secure.security.password, "a-wrong-password")
    given = options(secure, {**settings, "sasl.jaas.config": jaas})
    with pytest.raises(PySparkException, match="invalid credentials") as caught:
        copied(spark, topic, given)
    assert "a-wrong-password" not in str(caught.value)


def test_settings_that_would_be_sent_in_plaintext_are_refused(spark, secure, topic):
    settings = secure.security.java("PLAIN")
    del settings["security.protocol"]
    with pytest.raises(PySparkException, match=r"security\.protocol"):
        copied(spark, topic, options(secure, settings))
