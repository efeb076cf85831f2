"""Whether this run rehearses a cluster: every write is synced before it is acknowledged.

`make test-flushed` gives all brokers of the tests `log.flush.interval.messages=1`, so coordinators
wait for each of their records, as they do for followers. What has no broker, such as the machines
of hypothesis on a log in memory, reads it here.
"""

from floodmark.testing.broker_thread import settings_from_environment

COMMITS_LATER = settings_from_environment().get("log.flush.interval.messages") == "1"

NEVER_FLUSHED = {"log.flush.interval.messages": str(2**63 - 1)}
"""For tests of what happens at once, or of a sync that is still to come."""
