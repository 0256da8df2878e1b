"""The answer of a key source: an agent, or the reason why there is none (agent-link.md 2.5).

Reasons are logged. They hold no data of the agent, so that no key is logged.
"""

import re

import msgspec

from secmon.agentlink.key_request.failures import Failed, Refused
from secmon.agents.names import AGENT_NAME, fits_key_file, key_hash, normal_address, parse_id
from secmon.agents.registry.registry import New

MAX_ANSWER = 65_536
"""Bytes."""
_MAX_MESSAGE = 200
_SECRET = re.compile(r"[0-9A-Za-z+/=_-]{32,}")


class _Agent(msgspec.Struct, frozen=True):
    id: str
    name: str
    ip: str
    key: str


class _Answer(msgspec.Struct, frozen=True):
    error: int
    message: str | None = None
    data: msgspec.Raw = msgspec.Raw(b"null")
    """Read only when there is no error."""


_decode = msgspec.json.Decoder(_Answer).decode
_decode_agent = msgspec.json.Decoder(_Agent | None).decode
_BLANK = b"\0 \t\r\n"
_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def read_answer(data: bytes) -> New:
    """The agent to add. Raises Refused when the source knows no agent, Failed when the answer is invalid."""
    try:
        answer = _decode(data.strip(_BLANK))
        if answer.error:
            raise Refused(f"error {answer.error}: {_plain(answer.message or 'no message')}")
        agent = _decode_agent(answer.data)
    except _UNREADABLE as error:
        raise Failed(f"the answer cannot be read: {_plain(str(error))}") from None
    if agent is None:
        raise Failed("the answer holds no agent")
    return _new(agent)


def is_whole(data: bytes) -> bool:
    """Whether ``data`` is a complete JSON object: answers from a socket have no other end."""
    text = data.strip(_BLANK)
    if not text.endswith(b"}"):
        return False
    try:
        msgspec.json.decode(text)
    except _UNREADABLE:
        return False
    return True


def _new(agent: _Agent) -> New:
    number = parse_id(agent.id)
    if number is None:
        raise Failed("the answer's id is not valid")
    if not (AGENT_NAME.fullmatch(agent.name) and fits_key_file(agent.name)):
        raise Failed("the answer's name is not valid")
    try:
        address = normal_address(agent.ip)
    except ValueError:
        raise Failed("the answer's ip is not valid") from None
    if not (fits_key_file(agent.key) and agent.key.isascii() and agent.key.isprintable()):
        raise Failed("the answer's key is not valid")
    # An agent that is registered with this key must not be replaced by itself.
    held = key_hash(number, agent.name, agent.key)
    return New(name=agent.name, address=address, id=number, key=agent.key, key_hash=held)


def _plain(text: str) -> str:
    """``text`` as one short line for the log, without anything that may be a key."""
    line = "".join(one if one.isprintable() else " " for one in text)
    return _SECRET.sub("(hidden)", line)[:_MAX_MESSAGE]
