"""A compiled ruleset: decoders, lists and rules that belong together and never change (ruleset.md 1)."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from secmon.common.collector import collector_paused
from secmon.engine.decoders.decoder import Decoders
from secmon.engine.decoders.decoder_loader import load_decoders
from secmon.engine.decoders.decoder_search import DecoderTree, Plugin
from secmon.engine.decoders.devices import decode_forwarded_alert, decode_pf, decode_sonicwall, decode_symantec
from secmon.engine.decoders.event_xml import decode_event_xml
from secmon.engine.decoders.json_fields import decode_json
from secmon.engine.rules.child_index import index_children
from secmon.engine.rules.rule import ALERT_LEVEL, MAIL_LEVEL
from secmon.engine.rules.rule_loader import RuleLoader, Rules
from secmon.engine.rules.side_trees import SideTrees
from secmon.engine.ruleset.cdb_list import CdbList
from secmon.engine.ruleset.diagnostics import Diagnostics, Message
from secmon.engine.ruleset.load_cache import LoadCache
from secmon.knowledge.lists.list_text import EXPIRY_SUFFIX, read_expiries

File = tuple[str, bytes]
"""Path below the installation folder, and content."""

PLUGINS: Mapping[str, Plugin] = {
    "JSON_Decoder": decode_json,
    "EventXML_Decoder": decode_event_xml,
    "PF_Decoder": decode_pf,
    "SymantecWS_Decoder": decode_symantec,
    "SonicWall_Decoder": decode_sonicwall,
    "OSSECAlert_Decoder": decode_forwarded_alert,
}


@dataclass(frozen=True, slots=True)
class RulesetSettings:
    """Options of the configuration that a load depends on (ruleset.md 6.2, 11)."""

    alert_level: int = ALERT_LEVEL
    mail_level: int = MAIL_LEVEL
    default_timeframe: int = 360
    field_limit: int = 256


@dataclass(frozen=True, slots=True)
class Ruleset:
    """Shared by the live engine and logtest sessions."""

    decoders: Decoders
    decoder_tree: DecoderTree
    lists: Mapping[str, CdbList]
    rules: Rules
    side_trees: SideTrees
    settings: RulesetSettings
    messages: tuple[Message, ...]
    """Warnings of the load."""


def compile_ruleset(
    decoders: Iterable[File],
    lists: Mapping[str, bytes],
    rules: Iterable[File],
    settings: RulesetSettings | None = None,
    *,
    cache: LoadCache | None = None,
) -> Ruleset:
    """Compile files in load order. ``lists``: source by path, expiry files too. Raises RulesetError.

    With the ``cache`` of an earlier load, files that have not changed are not read again.
    """
    chosen, read = settings or RulesetSettings(), cache or LoadCache()
    diagnostics = Diagnostics()
    with read.loading(chosen), collector_paused():
        known = load_decoders(decoders, diagnostics, order_size=chosen.field_limit, known=read.decoders)
        compiled = {path: _list(path, lists, diagnostics, read) for path in lists if not path.endswith(EXPIRY_SUFFIX)}
        loader = RuleLoader(
            known,
            compiled,
            diagnostics,
            alert_level=chosen.alert_level,
            mail_level=chosen.mail_level,
            default_timeframe=chosen.default_timeframe,
            field_limit=chosen.field_limit,
            known=read.rules,
        )
        for file, data in rules:
            loader.load(file, data)
        loader.finish()
        index_children([*loader.rules.by_id.values()])
        return Ruleset(
            known,
            DecoderTree(known, PLUGINS),
            compiled,
            loader.rules,
            SideTrees(loader.rules.side_roots),
            chosen,
            tuple(diagnostics.messages),
        )


def _list(path: str, lists: Mapping[str, bytes], diagnostics: Diagnostics, read: LoadCache) -> CdbList:
    source, dates = lists[path], lists.get(path + EXPIRY_SUFFIX, b"")

    def build(file: str, data: bytes, warnings: Diagnostics) -> Sequence[CdbList]:
        until, invalid = read_expiries(dates)
        if invalid:
            text = f"{invalid} lines are not a key with a date: these entries do not expire"
            warnings.warn(1103, text, file=path + EXPIRY_SUFFIX)
        return [CdbList(source, until)]

    return read.lists.read(path, b"%d\n%b%b" % (len(source), source, dates), diagnostics, build)[0]
