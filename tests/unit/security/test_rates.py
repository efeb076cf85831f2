"""Rates and waits are Kafka's: samples in a ring, and a bucket for bursts."""

from __future__ import annotations

import pytest

from floodmark.security.rates import (
    MAX_THROTTLE_MS,
    PacedRate,
    SampledMean,
    SampledRate,
    TokenBucket,
    Windows,
    make_room,
)

WINDOWS = Windows(samples=11, sample_ms=1000)


def test_a_first_burst_is_spread_over_all_samples_but_one() -> None:
    rate = SampledRate(WINDOWS)
    rate.record(1000, now_ms=0)
    assert rate.per_second(0) == 100
    assert rate.throttle_ms(100, 0) == 0
    rate.record(500, now_ms=0)
    assert rate.throttle_ms(100, 0) == 15_000


def test_after_the_wait_the_rate_is_down_to_the_limit() -> None:
    rate = SampledRate(WINDOWS)
    rate.record(2600, now_ms=0)
    wait_ms = rate.throttle_ms(250, 0)
    assert wait_ms == 10_400
    assert rate.throttle_ms(250, 4000) == wait_ms - 4000
    assert rate.per_second(wait_ms) == pytest.approx(250)
    assert rate.throttle_ms(250, wait_ms) == 0


def test_what_is_older_than_all_samples_is_forgotten() -> None:
    rate = SampledRate(WINDOWS)
    rate.record(1000, now_ms=0)
    assert not rate.is_idle(10_999)
    assert rate.per_second(10_999) > 0
    assert rate.is_idle(11_000)
    assert rate.per_second(11_000) == 0


def test_a_negative_record_takes_back() -> None:
    rate = SampledRate(WINDOWS)
    rate.record(1000, now_ms=0)
    rate.record(-1000, now_ms=1)
    assert rate.per_second(1) == 0


@pytest.mark.parametrize("batch_bytes", [100, 16_384, 300_000])
@pytest.mark.parametrize("between_ms", [0, 3, 70])
def test_who_sends_as_fast_as_it_may_gets_its_quota_over_a_minute(
    batch_bytes: int, between_ms: int
) -> None:
    limit, rate, now_ms, sent = 100_000.0, SampledRate(WINDOWS), 0.0, 0
    is_able = batch_bytes * 1000 / max(between_ms, 1) > limit
    while now_ms < 60_000:
        sent += batch_bytes
        rate.record(batch_bytes, now_ms)
        # A round trip takes a moment even without throttling.
        now_ms += rate.throttle_ms(limit, now_ms) + between_ms + 0.1
    assert sent <= limit * 60 * 1.1 + batch_bytes
    if is_able:
        assert sent >= limit * 60 * 0.9


@pytest.mark.parametrize("seconds", [12, 15, 23, 31, 44, 60, 300])
@pytest.mark.parametrize("is_fetch", [False, True])
def test_bytes_are_paced_after_the_first_burst(seconds: int, is_fetch: bool) -> None:
    """A fetch that exceeds the limit is not sent, and asked for again."""
    limit, rate, now_ms, sent, size = 100_000.0, PacedRate(WINDOWS), 0.0, 0, 20_000
    while now_ms < seconds * 1000:
        rate.record(size, now_ms)
        wait_ms = rate.throttle_ms(limit, now_ms)
        if is_fetch and wait_ms:
            rate.record(-size, now_ms)
        else:
            sent += size
        now_ms += wait_ms + 7
    assert sent == pytest.approx(limit * seconds, rel=0.05)


def test_pacing_ends_with_silence_and_a_smaller_limit_counts_from_now_on() -> None:
    rate = PacedRate(WINDOWS)
    rate.record(1500, 0)
    assert rate.throttle_ms(100, 0) == 15_000
    assert not rate.is_idle(20_000), "it has waited longer than all samples, as it was told to"
    rate.record(100, 15_000)
    assert rate.throttle_ms(100, 15_000) == 1000
    rate.record(100, 16_000)
    assert rate.throttle_ms(10, 16_000) == 10_000
    assert rate.is_idle(16_000 + 10_000 + WINDOWS.all_ms)
    rate.record(1000, 40_000)
    assert rate.throttle_ms(100, 40_000) == 0, "a burst is possible again"


def test_a_raised_limit_counts_at_once() -> None:
    rate = PacedRate(WINDOWS)
    rate.record(1_000_000, 0)
    assert rate.throttle_ms(1000, 0) == 1_000_000
    rate.record(1000, 5000)
    assert rate.throttle_ms(1000, 5000) == 996_000
    rate.record(1000, 6000)
    assert rate.throttle_ms(1_000_000, 6000) == 0


@pytest.mark.parametrize("limit", [1.0, 1e-300, 1e-320, 0.0])
def test_a_throttle_time_always_fits_into_a_response(limit: float) -> None:
    for rate in (SampledRate(WINDOWS), PacedRate(WINDOWS)):
        for now_ms in (0, 1000, 2000):
            rate.record(3_000_000, now_ms)
            assert rate.throttle_ms(limit, now_ms) == MAX_THROTTLE_MS
    bucket = TokenBucket(WINDOWS)
    bucket.take(3_000_000, limit, 0)
    assert bucket.throttle_ms(limit, 0) == MAX_THROTTLE_MS


def test_a_mean_forgets_what_is_old() -> None:
    mean = SampledMean(WINDOWS)
    assert mean.mean(0) == 0
    mean.record(10, 0)
    mean.record(30, 5000)
    assert mean.mean(5000) == 20
    assert mean.mean(12_000) == 30
    assert mean.is_idle(17_000)


def test_a_bucket_allows_a_burst_and_then_the_rate() -> None:
    bucket = TokenBucket(WINDOWS)
    assert bucket.throttle_ms(2, 0) == 0
    bucket.take(22, 2, 0)
    assert bucket.throttle_ms(2, 0) == 0
    bucket.take(6, 2, 0)
    assert bucket.throttle_ms(2, 0) == 3000
    assert bucket.throttle_ms(2, 2999) > 0
    assert bucket.throttle_ms(2, 3000) == 0


def test_a_bucket_never_holds_more_than_its_burst() -> None:
    bucket = TokenBucket(WINDOWS)
    bucket.throttle_ms(2, 0)
    bucket.take(23, 2, 1_000_000)
    assert bucket.throttle_ms(2, 1_000_000) == 500


def test_room_is_made_by_dropping_idle_clients_first_and_then_all() -> None:
    rates = {name: SampledRate(WINDOWS) for name in ("idle", "busy", "busier")}
    rates["idle"].record(1, now_ms=0)
    for name in ("busy", "busier"):
        rates[name].record(1, now_ms=11_000)
    make_room(rates, 4, now_ms=12_000)
    assert set(rates) == {"idle", "busy", "busier"}
    make_room(rates, 3, now_ms=12_000)
    assert set(rates) == {"busy", "busier"}
    make_room(rates, 2, now_ms=12_000)
    assert rates == {}
