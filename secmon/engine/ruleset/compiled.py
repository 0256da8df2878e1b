"""A ruleset, compiled: decoders, lists and rules that belong together and never change (ruleset.md 1)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from secmon.engine.decoders.decoder import Decoders
from secmon.engine.decoders.devices import decode_forwarded_alert, decode_pf, decode_sonicwall, decode_symantec
from secmon.engine.decoders.json_fields import decode_json
from secmon.engine.decoders.loader import load_decoders
from secmon.engine.decoders.walk import DecoderWalk, Plugin
from secmon.engine.rules.index import index_children
from secmon.engine.rules.loader import DraftCache, RuleLoader, Rules
from secmon.engine.rules.rule import ALERT_LEVEL, MAIL_LEVEL
from secmon.engine.ruleset.diagnostics import Diagnostics, Message
from secmon.engine.ruleset.lists import CdbList

File = tuple[str, bytes]
"""Path below the installation folder, and content."""

PLUGINS: Mapping[str, Plugin] = {
    "JSON_Decoder": decode_json,
    "PF_Decoder": decode_pf,
    "SymantecWS_Decoder": decode_symantec,
    "SonicWall_Decoder": decode_sonicwall,
    "OSSECAlert_Decoder": decode_forwarded_alert,
}


@dataclass(frozen=True, slots=True)
class Settings:
    """What the configuration says about a load (ruleset.md 6.2, 11)."""

    alert_level: int = ALERT_LEVEL
    mail_level: int = MAIL_LEVEL
    default_timeframe: int = 360
    field_limit: int = 256


@dataclass(frozen=True, slots=True)
class Ruleset:
    """What one engine, or many sessions, work with."""

    decoders: Decoders
    walk: DecoderWalk
    lists: Mapping[str, CdbList]
    rules: Rules
    settings: Settings
    messages: tuple[Message, ...]
    """What the load had to say, warnings only."""


def compile_ruleset(
    decoders: Iterable[File],
    lists: Mapping[str, bytes],
    rules: Iterable[File],
    settings: Settings | None = None,
    *,
    cache: DraftCache | None = None,
) -> Ruleset:
    """Compile files in load order. ``lists``: source by path. Raises RulesetError.

    With the ``cache`` of an earlier load, files that have not changed are not read again.
    """
    chosen = settings or Settings()
    diagnostics = Diagnostics()
    known = load_decoders(decoders, diagnostics, order_size=chosen.field_limit)
    compiled = {path: CdbList(source) for path, source in lists.items()}
    loader = RuleLoader(
        known,
        compiled,
        diagnostics,
        alert_level=chosen.alert_level,
        mail_level=chosen.mail_level,
        default_timeframe=chosen.default_timeframe,
        field_limit=chosen.field_limit,
        cache=cache,
    )
    if cache is not None:
        cache.begin((known.ids, chosen))
    for file, data in rules:
        loader.load(file, data)
    if cache is not None:
        cache.finish()
    index_children([*loader.rules.by_id.values()])
    walk = DecoderWalk(known, PLUGINS)
    return Ruleset(known, walk, compiled, loader.rules, chosen, tuple(diagnostics.messages))
