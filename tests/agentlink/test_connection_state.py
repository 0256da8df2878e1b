"""The state machine of an agent's connection: every state with every event."""

from itertools import pairwise

import pytest

from secmon.agentlink.connection_state import Event, Read, Signal, State, next_state

READING, HELD, DRAINING, CLOSING = State.READING, State.HELD, State.DRAINING, State.CLOSING


def read(*, over_share: bool = False, caught_up: bool = False, heard: bool = False) -> Read:
    return Read(over_share, caught_up, heard)


QUIET, CAUGHT_UP = read(), read(caught_up=True)
OVER, OVER_HEARD, OVER_CAUGHT_UP = (
    read(over_share=True),
    read(over_share=True, heard=True),
    read(over_share=True, caught_up=True),
)
ALL_READ_AND_HEARD = read(over_share=True, caught_up=True, heard=True)

TABLE: list[tuple[State, Event, State]] = [
    (READING, QUIET, READING),
    (READING, CAUGHT_UP, READING),
    (READING, OVER, HELD),
    (READING, OVER_CAUGHT_UP, HELD),
    (READING, Signal.ROOM, READING),
    (READING, Signal.HOLD_EXPIRED, READING),
    (HELD, Signal.ROOM, READING),
    (HELD, Signal.HOLD_EXPIRED, DRAINING),
    (HELD, OVER, HELD),
    (HELD, CAUGHT_UP, HELD),
    (DRAINING, QUIET, DRAINING),
    (DRAINING, OVER, DRAINING),
    (DRAINING, OVER_HEARD, DRAINING),  # more waits: what follows may be another control message
    (DRAINING, OVER_CAUGHT_UP, DRAINING),  # to have read everything once is not to have heard the agent
    (DRAINING, ALL_READ_AND_HEARD, HELD),
    (DRAINING, CAUGHT_UP, READING),
    (DRAINING, Signal.ROOM, READING),
    (DRAINING, Signal.HOLD_EXPIRED, DRAINING),
    *((state, Signal.CLOSE, CLOSING) for state in State),
    *((CLOSING, event, CLOSING) for event in (QUIET, CAUGHT_UP, OVER, ALL_READ_AND_HEARD, *Signal)),
]


def test_each_state_has_one_answer_to_each_event() -> None:
    wrong = [(state, event) for state, event, expected in TABLE if next_state(state, event) is not expected]
    assert wrong == []


@pytest.mark.parametrize("state", [state for state in State if state is not CLOSING])
def test_room_ends_every_hold_and_every_drain(state: State) -> None:
    assert next_state(state, Signal.ROOM) is READING


def test_a_flood_is_held_and_drained_in_turns() -> None:
    state, path = READING, [READING]
    for event in (OVER, Signal.HOLD_EXPIRED, OVER, OVER_CAUGHT_UP, ALL_READ_AND_HEARD, Signal.HOLD_EXPIRED, CAUGHT_UP):
        state = next_state(state, event)
        path.append(state)
    changes = [after for before, after in pairwise(path) if after is not before]
    assert changes == [HELD, DRAINING, HELD, DRAINING, READING]
