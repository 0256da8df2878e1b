"""Selects the decoder of an event and extracts its fields (ruleset.md 5.4, 5.5)."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from secmon.engine.decoders.decoder import Decoder, Decoders, Offset
from secmon.engine.event import STATIC, Event

_STATIC = frozenset(STATIC)


CACHE_SIZE = 4096
"""Program names whose root decoders are cached."""
_EMPTY = 256
"""Index for an empty log, which has no first byte."""


class Selected(NamedTuple):
    """The selected decoder, and the offsets in the log where the prematch of its root and its own ended."""

    decoder: Decoder
    after_parent: int
    after_prematch: int


class Plugin(Protocol):
    """A decoder written in code (ruleset.md 5.6, 5.7)."""

    def __call__(self, event: Event, text: bytes, decoder: Decoder) -> None:
        """Extract fields of ``text`` by the options of ``decoder``, the one that was selected."""


class DecoderTree:
    """All decoders of a ruleset, indexed by program name and first byte. Only its cache changes."""

    def __init__(self, decoders: Decoders, plugins: Mapping[str, Plugin]) -> None:
        self._with_program = decoders.with_program
        self._by_program: dict[bytes, tuple[Decoder, ...]] = {}
        self._by_first_byte = _by_first_byte(decoders.without_program)
        self._plugins = plugins

    def decode(self, event: Event) -> None:
        """Set decoder, category and fields of ``event``. The first root that matches is final."""
        log = event.log
        for root in self._roots(event):
            after = 0
            if root.prematch is not None:
                end = root.prematch.search(log)
                if end is None:
                    continue
                after = min(end + 1, len(log))
            self._descend(event, root, after)
            return

    def _roots(self, event: Event) -> Sequence[Decoder]:
        """The roots that can match, in their order: by program name, or without one by the first byte of the log."""
        program = event.program_name
        if program is None:
            return self._by_first_byte[event.log[0] if event.log else _EMPTY]
        found = self._by_program.get(program)
        if found is None:
            if len(self._by_program) >= CACHE_SIZE:
                self._by_program.clear()
            found = self._by_program[program] = tuple(
                one for one in self._with_program if one.program_name is None or one.program_name.test(program)
            )
        return found

    def _descend(self, event: Event, root: Decoder, after: int) -> None:
        log = event.log
        event.decoder, event.category = root, root.category
        if not root.children:
            self._extract(event, [root], Selected(root, after, after))
            return
        k, children = 0, root.children
        while k < len(children):
            child = children[k]
            if child.prematch is None:
                self._extract(event, children[k:], Selected(root, after, after))
                return
            start = after if child.prematch_offset is Offset.AFTER_PARENT else 0
            end = child.prematch.search(log[start:] if start else log)
            if end is not None:
                event.decoder, event.category, event.parent = child, child.category, root.name
                self._extract(event, children[k:], Selected(child, after, min(start + end + 1, len(log))))
                return
            k = _after_group(children, k) if child.continued else k + 1

    def _extract(self, event: Event, chain: Sequence[Decoder], selected: Selected) -> None:
        """Extract with the first decoder of ``chain`` and those of the same name that continue it."""
        log = event.log
        last: int | None = None
        for decoder in chain:
            if decoder.plugin is not None:
                self._plugins[decoder.plugin](event, log[_plugin_start(selected) :], selected.decoder)
            elif decoder.regex is not None:
                start = _start(decoder.regex_offset, selected, last)
                found = decoder.regex.capture(log[start:] if start else log)
                if found is not None:
                    last = min(start + found.end + 1, len(log))
                    if not self._assign(event, decoder.order, found.groups):
                        return
            else:
                return
            if not decoder.continued:
                return

    def _assign(self, event: Event, order: Sequence[str], groups: Sequence[bytes]) -> bool:
        """Assign groups to fields; False when the event has as many dynamic fields as it may have."""
        for name, value in zip(order, groups, strict=False):
            if name in _STATIC:
                event.static[name] = value
            elif event.fields_full:
                return False
            else:
                event.add_dynamic(name, value)
        return True


def _by_first_byte(roots: Sequence[Decoder]) -> list[tuple[Decoder, ...]]:
    """The roots whose prematch can match, for each first byte and for an empty log."""
    firsts = [(one, one.prematch.first_bytes if one.prematch is not None else None) for one in roots]
    lower = [byte + 32 if 65 <= byte <= 90 else byte for byte in range(_EMPTY + 1)]
    return [tuple(one for one, first in firsts if first is None or byte in first) for byte in lower]


def _after_group(children: Sequence[Decoder], k: int) -> int:
    """Index of the first child after those with the same name as the one at ``k``."""
    name = children[k].own_name
    while k < len(children) and children[k].own_name == name:
        k += 1
    return k


def _start(offset: Offset, selected: Selected, last: int | None) -> int:
    match offset:
        case Offset.NONE:
            return 0
        case Offset.AFTER_PARENT:
            return selected.after_parent
        case Offset.AFTER_PREMATCH:
            return selected.after_prematch
        case Offset.AFTER_REGEX:
            return selected.after_prematch if last is None else last


def _plugin_start(selected: Selected) -> int:
    """A plugin starts at the offset of the selected decoder, even when another decoder names the plugin."""
    return _start(selected.decoder.plugin_offset, selected, None)
