"""Histograms and summaries of request times, on a running broker."""

from floodmark.apis.dispatch import SAMPLE_EVERY
from floodmark.testing.broker_thread import BrokerThread
from floodmark.wire.messages.api_versions import ApiVersionsRequest
from fuzz_kit.raw_client import RawClient
from kit.plain_requests import fetch_request, produce_request
from kit.scraping import Watcher

DURATION = "floodmark_request_duration_seconds"
TIMES = "kafka_network_requestmetrics_{}timems{}"
PARTS = ("total", "requestqueue", "local", "remote", "responsesend")


def test_a_histogram_is_cumulative_and_ends_in_its_count(
    floodmark: BrokerThread, watcher: Watcher, floodmark_topic: str
) -> None:
    with RawClient(floodmark.bootstrap_servers) as client:
        for _ in range(2 * SAMPLE_EVERY):
            client.ask(produce_request(floodmark_topic), 9)
    samples = watcher.scrape()
    of_produce = [
        (float(labels["le"]), count)
        for labels, count in samples.all(DURATION + "_bucket")
        if labels["request"] == "Produce"
    ]
    counts = [count for _, count in sorted(of_produce)]
    assert counts == sorted(counts)
    assert counts[-1] == samples.of(DURATION + "_count", request="Produce") == 2 * SAMPLE_EVERY
    assert samples.of(DURATION + "_sum", request="Produce") > 0


def test_every_request_of_a_rare_kind_is_timed(
    floodmark: BrokerThread, watcher: Watcher, floodmark_topic: str
) -> None:
    with RawClient(floodmark.bootstrap_servers) as client:
        for _ in range(3):
            client.ask(ApiVersionsRequest(), 0)
        client.ask(fetch_request(floodmark_topic, 0), 11)
    samples = watcher.scrape()
    for part in PARTS:
        assert samples.of(TIMES.format(part, "_count"), request="ApiVersions") == 3
        assert samples.of(TIMES.format(part, "_sum"), request="ApiVersions") >= 0
        assert samples.of(TIMES.format(part, ""), request="ApiVersions", quantile="0.99") >= 0
    assert samples.of(TIMES.format("local", "_sum"), request="ApiVersions") > 0


def test_a_produce_of_the_short_way_is_timed_without_leaving_it(
    floodmark: BrokerThread, watcher: Watcher, floodmark_topic: str
) -> None:
    """A timed one was decoded in full once: slower itself, and slower than what it stood for."""
    with RawClient(floodmark.bootstrap_servers) as client:
        client.ask(produce_request(floodmark_topic), 9)
        floodmark.call(forbid_decoding(floodmark))
        for _ in range(2 * SAMPLE_EVERY):
            client.ask(produce_request(floodmark_topic), 9)
    produced = watcher.scrape().of(DURATION + "_count", request="Produce")
    assert produced == 3 * SAMPLE_EVERY


async def forbid_decoding(floodmark: BrokerThread) -> None:
    """Requests that are not known to their connection end it from now on."""
    dispatch = floodmark.broker.dispatch
    known = dispatch._routes
    dispatch._routes = {key: route for key, route in known.items() if key[0] != 0}
    dispatch._load = None
