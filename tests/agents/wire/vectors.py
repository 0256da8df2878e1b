"""Byte-exact cases of the agent link, as data."""

import json
from functools import cache
from pathlib import Path
from typing import Any

from secmon.agents.wire.keys import AgentKey


@cache
def load() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((Path(__file__).parent / "vectors.json").read_text())
    return found


def section(name: str) -> Any:
    return load()[name]


def agent(letter: str) -> AgentKey:
    """One of the four invented agents."""
    found = load()["agents"][letter]
    return AgentKey(found["id"], found["name"], found["ip"], found["key"])


def plaintext(case: dict[str, Any]) -> bytes:
    """The text of a sealed message, in whichever form the case holds it."""
    if "plaintext_hex" in case:
        return bytes.fromhex(case["plaintext_hex"])
    if "plaintext_repeat" in case:
        repeat = case["plaintext_repeat"]
        length: int = repeat["total_length"]
        return bytes((repeat["head"] + repeat["unit"] * length).encode()[:length])
    return str(case["plaintext"]).encode()
