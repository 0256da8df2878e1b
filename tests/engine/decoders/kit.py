"""Decoders of a text, and what they make of a log."""

from datetime import UTC, datetime

from secmon.engine.decoders.decoder_loader import load_decoders
from secmon.engine.decoders.decoder_search import DecoderTree
from secmon.engine.decoders.json_fields import decode_json
from secmon.engine.event import Event
from secmon.engine.input.predecode import Message, predecode
from secmon.engine.ruleset.diagnostics import Diagnostics

NOW = datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)
HEADER = "Nov 14 22:13:20 hq "


def walk(xml: str) -> DecoderTree:
    decoders = load_decoders([("etc/decoders/test.xml", xml.encode())], Diagnostics())
    return DecoderTree(decoders, {"JSON_Decoder": decode_json})


def decoded(xml: str, log: str) -> Event:
    return decoded_bytes(xml, log.encode())


def decoded_bytes(xml: str, log: bytes) -> Event:
    event = predecode(Message("1", b"/var/log/demo.log", log), time=NOW, host=b"mgr")
    walk(xml).decode(event)
    return event


def fields(event: Event) -> dict[str, str]:
    """Static fields, and dynamic ones in braces."""
    shown = {name: value.decode() for name, value in event.static.items()}
    return shown | {f"{{{name}}}": value.decode() for name, value in event.dynamic}
