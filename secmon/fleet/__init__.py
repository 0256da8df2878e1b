"""Simulated agents: thousands in one process, written from the agent's side of the link (agent-link.md).

This room shares the codec with the server and nothing else, so that a misreading of the protocol shows as a fault
between the two instead of hiding in both.
"""

from secmon.fleet.counters import Counters
from secmon.fleet.fleet import Fleet
from secmon.fleet.options import Misbehaviour, Options, Server, Timing
from secmon.fleet.profiles import PROFILES, Profile

__all__ = ["PROFILES", "Counters", "Fleet", "Misbehaviour", "Options", "Profile", "Server", "Timing"]
