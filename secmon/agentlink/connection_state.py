"""The states of an agent's TCP connection, and the function that decides which one follows.

::

                       events over the share
     ┌─────────┐ ────────────────────────────────▶ ┌──────┐
  ──▶│ READING │                                    │ HELD │◀─────────────┐
     └─────────┘ ◀──────────────────────────────── └──────┘              │
          ▲                    room                    │ hold expired      │ events over the share,
          │                                            ▼                   │ the agent was heard,
          │        room, or caught up without     ┌──────────┐             │ and all is read
          └────── any event over the share ────── │ DRAINING │ ────────────┘
                                                  └──────────┘

  every state ── refused, lost, replaced, evicted, stopped ──▶ CLOSING

A connection is held while events find no room, so that TCP stops its peer and no event is lost. A hold is bounded:
control messages wait behind the events of a held connection, and an agent that is not heard counts as disconnected. A
connection whose hold expires is drained: control messages count as always, events over the share are dropped and
counted. It is held again when the agent was heard.
"""

from enum import Enum, auto
from typing import NamedTuple


class State(Enum):
    READING = auto()
    """Everything it brings is taken."""
    HELD = auto()
    """Nothing is read: its peer has to wait."""
    DRAINING = auto()
    """Everything is read, and events over the share are dropped."""
    CLOSING = auto()
    """Nothing that it brings counts. There is no way back."""


class Read(NamedTuple):
    """A read was handled."""

    over_share: bool
    """Events over the agent's share came since the connection is in its state."""
    caught_up: bool
    """The peer has sent nothing more so far."""
    heard: bool
    """A control message of the agent came since the connection is in its state."""


class Signal(Enum):
    ROOM = auto()
    """Events were written: there is room for all again."""
    HOLD_EXPIRED = auto()
    CLOSE = auto()
    """The peer is gone, or the connection must end."""


Event = Read | Signal


def next_state(state: State, event: Event) -> State:
    """The state after ``event``. Pure: the connection and its pool carry the decision out."""
    match state, event:
        case State.CLOSING, _:
            return State.CLOSING
        case _, Signal.CLOSE:
            return State.CLOSING
        case _, Signal.ROOM:
            return State.READING
        case State.HELD, Signal.HOLD_EXPIRED:
            return State.DRAINING
        case State.READING, Read(over_share=True):
            return State.HELD
        case State.DRAINING, Read(over_share=True, caught_up=True, heard=True):
            return State.HELD
        case State.DRAINING, Read(over_share=False, caught_up=True):
            return State.READING
    return state
