"""Broker settings with which groups notice soon who is gone, in both protocols."""

SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    # The members choose 3 s for themselves; in KIP-848 the broker decides.
    "group.min.session.timeout.ms": "1000",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "3000",
    "group.consumer.min.heartbeat.interval.ms": "500",
    "group.consumer.heartbeat.interval.ms": "500",
}
