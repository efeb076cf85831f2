"""One run at a time, on file systems that have no locks."""

import json
import os
from dataclasses import asdict, replace

import pytest

from floodmark.pipeline.authoring import leases
from floodmark.pipeline.authoring.leases import Lease, Owner
from floodmark.pipeline.errors import PipelineError
from floodmark.testing.virtual_clock import VirtualClock


class MemoryFile:
    """A lease file; `on_read` may act as another process does between two looks."""

    def __init__(self, text: str | None = None) -> None:
        self.text = text
        self.reads = 0
        self.on_read = lambda: None
        self.fails = False

    def exists(self) -> bool:
        return self.text is not None

    def read_text(self, encoding: str = "utf-8") -> str:
        self.reads += 1
        self.on_read()
        if self.text is None:
            raise FileNotFoundError("lock")
        return self.text

    def write_whole(self, text: str) -> None:
        if self.fails:
            raise PipelineError("no response")
        self.text = text

    def remove(self) -> None:
        self.text = None

    def hold(self, owner: Owner) -> None:
        self.text = json.dumps(asdict(owner))


ELSEWHERE = Owner("other", "elsewhere", "another machine", 7)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leases, "SETTLE_SECONDS", 0.001)
    monkeypatch.setattr(leases, "EXPIRY_SECONDS", 0.01)
    monkeypatch.setattr(leases, "RENEWAL_SECONDS", 0.002)


def test_a_lease_is_taken_renewed_and_given_back() -> None:
    file = MemoryFile()
    lease = Lease(file, "shop")
    lease.acquire()
    before = file.text
    seen = file.reads
    while file.reads < seen + 3:
        assert lease._thread.is_alive()
    assert file.text != before
    lease.release()
    assert file.text is None


def test_a_lease_that_changes_is_another_runs() -> None:
    file = MemoryFile()
    file.on_read = lambda: file.hold(replace(ELSEWHERE, renewal=file.reads))
    with pytest.raises(PipelineError, match=r"already running .* by process 7 on elsewhere"):
        Lease(file, "shop").acquire()


def test_a_lease_that_no_longer_changes_is_taken_over() -> None:
    file = MemoryFile()
    file.hold(ELSEWHERE)
    lease = Lease(file, "shop")
    lease.acquire()
    lease.release()
    assert file.reads > 3


def test_a_process_of_this_machine_that_is_gone_is_not_waited_for() -> None:
    file = MemoryFile()
    # The largest number that Linux allows is one more than that of any process.
    file.hold(replace(Owner.this_process(), pid=2**22 + 1))
    lease = Lease(file, "shop")
    lease.acquire()
    assert file.reads == 2 or lease._thread.is_alive()
    lease.release()
    assert not Owner.this_process().is_gone
    assert Owner.this_process().pid == os.getpid()


def test_of_two_newcomers_one_gives_way() -> None:
    file = MemoryFile()

    def rival_writes_last() -> None:
        if file.text is not None:
            file.hold(ELSEWHERE)

    file.on_read = rival_writes_last
    with pytest.raises(PipelineError, match="already running"):
        Lease(file, "shop").acquire()
    assert json.loads(file.text or "")["owner"] == "other"


def test_a_run_whose_lease_was_taken_over_ends() -> None:
    file = MemoryFile()
    lease = Lease(file, "shop")
    lease.acquire()
    file.hold(ELSEWHERE)
    lease._thread.join(10)
    with pytest.raises(PipelineError, match="taken over by process 7 on elsewhere"):
        lease.check()
    lease.release()
    assert json.loads(file.text or "")["owner"] == "other"


def test_a_run_that_cannot_renew_its_lease_ends() -> None:
    clock = VirtualClock()
    file = MemoryFile()
    lease = Lease(file, "shop", clock)
    lease.acquire()
    lease.check()
    file.fails = True
    clock.advance(1_000)
    with pytest.raises(PipelineError, match="could not be renewed"):
        lease.check()
    file.fails = False
    lease.release()


def test_a_damaged_lease_is_told() -> None:
    with pytest.raises(PipelineError, match="is damaged"):
        Lease(MemoryFile("{"), "shop").acquire()
