"""Events that the inventory passes on to the analysis: decoded already, so that rules see their fields.

They go through a journal of their own (``queue/events-inventory``), which no agent and no local program can write.
"""

import msgspec

from secmon.inventory.message import AgentMessage


class DecodedEvent(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """An event for the rules.

    ``decoder``: the name of one of the internal decoders (ruleset.md 5.8). ``fields``: dynamic fields by name, in the
    order in which alerts show them. ``log``: the text of the event. ``agent`` is its number, ``location`` begins with
    ``(name) address->``. ``first_seen``: the finding is new.
    """

    agent: int
    name: str
    location: str
    decoder: str
    fields: list[tuple[str, str]]
    log: str
    first_seen: bool = False


encode_event = msgspec.msgpack.Encoder().encode
decode_event = msgspec.msgpack.Decoder(DecodedEvent).decode


def event_of(
    message: AgentMessage, decoder: str, fields: list[tuple[str, str]], log: str, *, first_seen: bool = False
) -> DecodedEvent:
    """An event from the agent and the location of ``message``."""
    return DecodedEvent(
        agent=message.agent,
        name=message.name,
        location=message.location,
        decoder=decoder,
        fields=fields,
        log=log,
        first_seen=first_seen,
    )
