from collections.abc import Iterator

import pytest

from floodmark.testing.broker_thread import BrokerThread
from kit.scraping import Watcher, watched


@pytest.fixture
def watcher(floodmark: BrokerThread) -> Iterator[Watcher]:
    with watched(floodmark) as watcher:
        yield watcher
