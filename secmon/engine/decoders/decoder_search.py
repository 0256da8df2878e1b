"""Selects the decoder of an event and extracts its fields (ruleset.md 5.4, 5.5).

Decoders whose patterns cannot match a log are not tried.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

from secmon.engine.decoders.decoder import Decoder, Decoders, Offset
from secmon.engine.event import STATIC, Event
from secmon.engine.matching import Expression
from secmon.engine.matching.pattern_index import ANY, Choice, Requirement

_STATIC = frozenset(STATIC)

CACHE_SIZE = 4096
"""Program names whose root decoders are cached."""


class Selected(NamedTuple):
    """The selected decoder, and the offsets in the log where the prematch of its root and its own ended."""

    decoder: Decoder
    after_parent: int
    after_prematch: int


class Plugin(Protocol):
    """A decoder written in code (ruleset.md 5.6, 5.7)."""

    def __call__(self, event: Event, text: bytes, decoder: Decoder) -> None:
        """Extract fields of ``text`` by the options of ``decoder``, the one that was selected."""


class _Branch(NamedTuple):
    """An alternative below a root: ``decoder`` is selected, and ``chain`` extracts, when ``prematch`` matches.

    Without a ``prematch`` it always is, and ``decoder`` is the root.
    """

    decoder: Decoder
    prematch: Expression | None
    chain: Choice[Decoder]


class _Root(NamedTuple):
    """A root and its branches in the order in which they are tried."""

    decoder: Decoder
    branches: Choice[_Branch]


class DecoderTree:
    """All decoders of a ruleset, by program name and by what their patterns require. Only its cache changes."""

    def __init__(self, decoders: Decoders, plugins: Mapping[str, Plugin]) -> None:
        self._with_program = [_root(one) for one in decoders.with_program]
        self._without_program = _choice_of_roots([_root(one) for one in decoders.without_program])
        self._by_program: dict[bytes, Choice[_Root]] = {}
        self._plugins = plugins

    def decode(self, event: Event) -> None:
        """Set decoder, category and fields of ``event``. The first root that matches is final."""
        log = event.log
        text = log.lower()
        for root in self._roots(event.program_name).candidates(text):
            prematch, after = root.decoder.prematch, 0
            if prematch is not None:
                end = prematch.search(log)
                if end is None:
                    continue
                after = min(end + 1, len(log))
            self._descend(event, text, root, after)
            return

    def _roots(self, program: bytes | None) -> Choice[_Root]:
        """The roots for a program name, or those without one."""
        if program is None:
            return self._without_program
        found = self._by_program.get(program)
        if found is None:
            if len(self._by_program) >= CACHE_SIZE:
                self._by_program.clear()
            found = self._by_program[program] = _choice_of_roots(
                [
                    one
                    for one in self._with_program
                    if one.decoder.program_name is None or one.decoder.program_name.test(program)
                ]
            )
        return found

    def _descend(self, event: Event, text: bytes, root: _Root, after: int) -> None:
        log, decoder = event.log, root.decoder
        event.decoder, event.category = decoder, decoder.category
        for child, prematch, chain in root.branches.candidates(text):
            if prematch is None:
                self._extract(event, chain.candidates(text), Selected(decoder, after, after))
                return
            start = after if child.prematch_offset is Offset.AFTER_PARENT else 0
            end = prematch.search(log[start:] if start else log)
            if end is not None:
                event.decoder, event.category, event.parent = child, child.category, decoder.name
                selected = Selected(child, after, min(start + end + 1, len(log)))
                self._extract(event, chain.candidates(text), selected)
                return

    def _extract(self, event: Event, chain: Sequence[Decoder], selected: Selected) -> None:
        """Extract with each decoder of ``chain`` that matches."""
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
                    if not _assign(event, decoder.order, found.groups):
                        return


def _root(decoder: Decoder) -> _Root:
    branches = [*_branches(decoder)] if decoder.children else [_Branch(decoder, None, _chain([decoder]))]
    return _Root(decoder, Choice([(one, _requirement(one.prematch, one.decoder)) for one in branches]))


def _branches(root: Decoder) -> Iterator[_Branch]:
    """The children that a search tries, one after the other, while none matches. One without a prematch ends it."""
    children, k = root.children, 0
    while k < len(children):
        child = children[k]
        if child.prematch is None:
            yield _Branch(root, None, _chain(children[k:]))
            return
        yield _Branch(child, child.prematch, _chain(children[k:]))
        k = _after_group(children, k) if child.continued else k + 1


def _after_group(children: Sequence[Decoder], k: int) -> int:
    """Index of the first child after those with the same name as the one at ``k``."""
    name = children[k].own_name
    while k < len(children) and children[k].own_name == name:
        k += 1
    return k


def _chain(children: Sequence[Decoder]) -> Choice[Decoder]:
    """The first of ``children`` and those that continue it, as far as they extract something."""
    made: list[tuple[Decoder, Requirement]] = []
    for one in children:
        if one.plugin is None and one.regex is None:
            break
        made.append((one, ANY if one.regex is None or one.plugin is not None else Requirement(one.regex.literals)))
        if not one.continued:
            break
    return Choice(made)


def _choice_of_roots(roots: Sequence[_Root]) -> Choice[_Root]:
    return Choice([(one, _requirement(one.decoder.prematch, one.decoder)) for one in roots])


def _requirement(prematch: Expression | None, decoder: Decoder) -> Requirement:
    """Of the log: the offset of a pattern says where its match begins."""
    if prematch is None:
        return ANY
    return Requirement(prematch.literals, prematch.first_bytes if decoder.prematch_offset is Offset.NONE else None)


def _assign(event: Event, order: Sequence[str], groups: Sequence[bytes]) -> bool:
    """Assign groups to fields; False when the event has as many dynamic fields as it may have."""
    for name, value in zip(order, groups, strict=False):
        if name in _STATIC:
            event.static[name] = value
        elif event.fields_full:
            return False
        else:
            event.add_dynamic(name, value)
    return True


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
