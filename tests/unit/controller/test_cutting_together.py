"""What belongs together is stored together, however small the store's multis are."""

from __future__ import annotations

from floodmark.controller.cutting import cut
from floodmark.metadata import paths
from floodmark.metadata.store import Create, SetData


def test_a_state_and_its_eligible_leaders_are_not_cut_apart():
    state = SetData(paths.state_path("t", 0), b"{}", 1)
    eligible = Create(paths.eligible_path("t", 0), b"{}")
    other = SetData(paths.state_path("t", 1), b"{}", 1)
    assert list(cut([state, eligible, other], 1)) == [[state, eligible], [other]]
