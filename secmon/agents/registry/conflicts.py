"""Agents that a new one conflicts with (agent-link.md 1.8, 3.1)."""

from typing import Any

from sqlalchemy import BindParameter, Connection, Select, Text, bindparam, or_, select

from secmon.agents.names import ANY
from secmon.agents.registry.replacement import ExistingAgent
from secmon.agents.registry.schema import agents


def conflicts(connection: Connection, *, agent: int | None, address: str, name: str) -> list[tuple[int, ExistingAgent]]:
    """Agents with this id, address or name and the code of a refusal, in the order of the checks."""
    found: list[tuple[int, ExistingAgent]] = []
    if agent is not None:
        found += [(1708, one) for one in _holders(connection, _BY_ID, agent)]
    if address != ANY:
        # A host collides with the bare address of a network, too; a network with nothing else (1.6).
        is_host = "/" not in address
        found += [(1706, one) for one in _holders(connection, _BY_HOST if is_host else _BY_ADDRESS, address)]
    return found + [(1705, one) for one in _holders(connection, _BY_NAME, name)]


_HOLDER = select(
    agents.c.id,
    agents.c.name,
    agents.c.internal_key,
    agents.c.date_add,
    agents.c.connection_status,
    agents.c.disconnection_time,
).order_by(agents.c.id)
_VALUE: BindParameter[Any] = bindparam("value")
_TEXT = bindparam("value", type_=Text)
_BY_ID = _HOLDER.where(agents.c.id == _VALUE)
_BY_NAME = _HOLDER.where(agents.c.name == _VALUE)
_BY_ADDRESS = _HOLDER.where(agents.c.register_ip == _VALUE)
_BY_HOST = _HOLDER.where(
    # "0" is the character after "/".
    or_(agents.c.register_ip == _TEXT, agents.c.register_ip.between(_TEXT.concat("/"), _TEXT.concat("0")))
)


def _holders(connection: Connection, statement: Select[Any], value: str | int) -> list[ExistingAgent]:
    return [
        ExistingAgent(id=number, name=name, key=key, date_add=added, status=status, disconnection_time=gone)
        for number, name, key, added, status, gone in connection.execute(statement, {"value": value})
    ]
