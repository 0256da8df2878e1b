"""Simulated agents: thousands in one process, written from the agent's side of the protocol (agent-link.md).

This room shares the codec with the server and nothing else, so that a misreading of the protocol shows as a fault
between the two instead of hiding in both.
"""

from secmon.simulator.counters import Counters
from secmon.simulator.fleet import Fleet
from secmon.simulator.options import Misbehaviour, Options, Server, Timing
from secmon.simulator.profiles import PROFILES, Profile

__all__ = ["PROFILES", "Counters", "Fleet", "Misbehaviour", "Options", "Profile", "Server", "Timing"]
