"""Events that the inventory has decoded (ruleset.md 5.8): from a journal of their own, and seen by no decoder."""

from datetime import datetime

import msgspec

from secmon.engine.decoders.decoder import Decoder
from secmon.engine.decoders.json_fields import MAX_NAME
from secmon.engine.decoders.json_text import to_bytes
from secmon.engine.event import Event
from secmon.engine.ruleset.compiled import Ruleset
from secmon.inventory.decoded_event import DecodedEvent, decode_event

MAX_FIELDS = 1024
"""Fields of an event; further ones are left out, since an agent names some of them itself."""


def read_decoded_event(data: bytes, ruleset: Ruleset, time: datetime) -> Event | None:
    """The event in a record of the inventory's journal, processed at ``time``; None for anything else."""
    try:
        decoded = decode_event(data)
    except msgspec.MsgspecError:
        return None
    decoder = ruleset.decoders.internal.get(decoded.decoder)
    return None if decoder is None else decoded_event(decoded, decoder, time)


def decoded_event(decoded: DecodedEvent, decoder: Decoder, time: datetime) -> Event:
    """The event for the rules. ``decoder`` is the internal one that ``decoded`` names, ``time`` local with its zone."""
    name, log = to_bytes(decoded.name), to_bytes(decoded.log)
    event = Event(
        queue="",
        location=to_bytes(decoded.location),
        full_log=log,
        log=log,
        time=time,
        received=int(time.timestamp()),
        agent_id=f"{decoded.agent:03d}",
        agent_name=name,
        hostname=name,
        size=len(log),
        decoder=decoder,
        category=decoder.category,
        first_seen=decoded.first_seen,
    )
    for field, value in decoded.fields[:MAX_FIELDS]:
        if len(field) <= MAX_NAME:
            event.add_dynamic(field, to_bytes(value))
    return event
