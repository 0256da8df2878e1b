"""Alerts of agents, made for tests."""

from typing import Any

from tests.outputs.alert_files import alert


def raised(number: int, agent_id: str, second: int, **fields: Any) -> dict[str, Any]:
    """An alert of an agent, so many seconds after noon."""
    timestamp = f"2026-11-22T12:00:{second:02d}.000+0000"
    return alert(number, agent={"id": agent_id, "name": f"host-{agent_id}"}, timestamp=timestamp, **fields)
