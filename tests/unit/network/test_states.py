"""A connection's states change by the tables and by nothing else."""

from enum import Enum

import pytest

from floodmark.network import states
from floodmark.network.states import (
    CLOSED_STATE,
    NEW_STATE,
    STATES,
    Event,
    Receiving,
    Request,
    Sending,
)

REACHABLE = list(STATES.values())
SIDES = [(Request, states.REQUEST), (Receiving, states.RECEIVING), (Sending, states.SENDING)]


def after(state: states.State, event: Event) -> states.State:
    return getattr(state, event.value)


def is_listed(state: states.State, event: Event) -> bool:
    return hasattr(state, event.value)


def test_every_combination_of_the_sides_is_reachable() -> None:
    assert len(REACHABLE) == len(Request) * len(Receiving) * len(Sending)


@pytest.mark.parametrize(("side", "table"), SIDES)
def test_the_tables_in_the_docstring_are_those_in_force(
    side: type[Enum], table: states.Table
) -> None:
    lines = (states.__doc__ or "").splitlines()
    begin = next(at for at, line in enumerate(lines) if line.startswith(f"`{side.__name__}` is"))
    header, _, *rows = lines[begin + 2 : begin + 4 + len(list(side))]
    columns = {name: header.index(name) for name in header.split()[2:]}
    documented = {
        (row.split()[0], event): row[column:].split()[0]
        for row in rows
        for event, column in columns.items()
        if row[column : column + 1].strip()
    }
    in_force = {
        (state.name, event.name): following.name
        for state, events in table.items()
        for event, following in events.items()
    }
    assert documented == in_force


@pytest.mark.parametrize("event", [event for event in Event if event is not Event.CLOSED])
def test_an_event_belongs_to_one_side(event: Event) -> None:
    owners = [table for _, table in SIDES if any(event in row for row in table.values())]
    assert len(owners) == 1


@pytest.mark.parametrize("state", REACHABLE)
def test_an_event_changes_its_own_side_only(state: states.State) -> None:
    for event in Event:
        if event is Event.CLOSED or not is_listed(state, event):
            continue
        pairs = zip(state.sides or (), after(state, event).sides or (), strict=True)
        assert sum(before is not following for before, following in pairs) <= 1


@pytest.mark.parametrize(
    ("events", "illegal"),
    [
        ([], Event.ANSWERED),
        ([], Event.PARKED),
        ([Event.SUBMITTED], Event.SUBMITTED),
        ([Event.SUBMITTED, Event.REFUSED], Event.ANSWERED),
        ([Event.SUBMITTED, Event.PARKED], Event.REFUSED),
        ([Event.PEER_LEFT], Event.PEER_LEFT),
    ],
)
def test_an_event_that_the_tables_do_not_list_is_refused(
    events: list[Event], illegal: Event
) -> None:
    state = NEW_STATE
    for event in events:
        state = after(state, event)
    with pytest.raises(AttributeError, match=illegal.value):
        after(state, illegal)


@pytest.mark.parametrize("state", REACHABLE)
def test_every_state_can_close_and_nothing_happens_after_that(state: states.State) -> None:
    assert state.closed is CLOSED_STATE
    assert all(after(CLOSED_STATE, event) is CLOSED_STATE for event in Event)
    assert not (CLOSED_STATE.is_open or CLOSED_STATE.takes_requests or CLOSED_STATE.is_muted)


@pytest.mark.parametrize("state", REACHABLE)
def test_a_request_is_taken_up_only_when_none_is_under_way_and_all_answers_are_taken(
    state: states.State,
) -> None:
    assert state.takes_requests == (not state.is_muted and not state.is_blocked)
