"""An event as XML in a log, as Sysmon for Linux writes it. Its sections are the fields ``system`` and ``eventdata``."""

from secmon.engine.decoders.decoder import Decoder
from secmon.engine.decoders.eventchannel import as_written, first_lower
from secmon.engine.decoders.json_fields import flatten
from secmon.engine.event import Event
from secmon.engine.ruleset.ruleset_xml import Element, parse_beginning

_SECTIONS = ("system", "eventdata")


def decode_event_xml(event: Event, text: bytes, decoder: Decoder) -> None:
    """Extract the fields of the event at the start of ``text``, as far as it is XML; values without escapes."""
    # Backslashes are doubled before anything else: one before a bracket would hide it.
    roots, _ = parse_beginning(text.replace(b"\\", b"\\\\"))
    found: dict[str, dict[str, str]] = {}
    for root in roots:
        for section in root.children if root.key == "event" else [root]:
            if section.key in _SECTIONS:
                _read(section, found.setdefault(section.key, {}))
    flatten(event, found, decoder)


def _read(section: Element, into: dict[str, str]) -> None:
    for one in section.children:
        name = one.attributes.get("Name", b"").decode("utf-8", "surrogateescape") if one.key == "data" else one.name
        value = as_written(one.content).decode("utf-8", "surrogateescape")
        if name and value:
            into.setdefault(first_lower(name), value)
