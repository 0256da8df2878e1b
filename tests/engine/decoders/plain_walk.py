"""The model of the decoder search: the pseudocode of ruleset.md 5.4, every root and every child in its order."""

from secmon.engine.decoders.decoder import Decoder, Decoders, Offset
from secmon.engine.decoders.json_fields import decode_json
from secmon.engine.event import STATIC, Event


def decode(decoders: Decoders, event: Event) -> None:
    """As DecoderTree.decode with the JSON plugin."""
    program = event.program_name
    for root in decoders.without_program if program is None else decoders.with_program:
        if program is not None and root.program_name is not None and not root.program_name.test(program):
            continue
        after_parent = 0
        if root.prematch is not None:
            end = root.prematch.search(event.log)
            if end is None:
                continue
            after_parent = min(end + 1, len(event.log))
        _select(root, event, after_parent)
        return


def _select(root: Decoder, event: Event, after_parent: int) -> None:
    event.decoder, event.category = root, root.category
    children, after_prematch, k = root.children or [root], after_parent, 0
    while root.children and (child := children[k]).prematch is not None:
        start = after_parent if child.prematch_offset is Offset.AFTER_PARENT else 0
        end = child.prematch.search(event.log[start:])
        if end is not None:
            event.decoder, event.category, event.parent = child, child.category, root.name
            after_prematch = min(start + end + 1, len(event.log))
            break
        k += 1
        while child.continued and k < len(children) and children[k].own_name == child.own_name:
            k += 1
        if k == len(children):
            return
    _extract(children[k:], event, after_parent, after_prematch)


def _extract(chain: list[Decoder], event: Event, after_parent: int, after_prematch: int) -> None:
    previous: int | None = None
    selected = event.decoder
    assert selected is not None
    for one in chain:
        starts = {
            Offset.NONE: 0,
            Offset.AFTER_PARENT: after_parent,
            Offset.AFTER_PREMATCH: after_prematch,
            Offset.AFTER_REGEX: after_prematch if previous is None else previous,
        }
        if one.plugin is not None:
            decode_json(event, event.log[starts[selected.plugin_offset] :], selected)
        elif one.regex is not None:
            start = starts[one.regex_offset]
            found = one.regex.capture(event.log[start:])
            if found is not None:
                previous = min(start + found.end + 1, len(event.log))
                for name, value in zip(one.order, found.groups, strict=False):
                    if name in STATIC:
                        event.static[name] = value
                    elif event.fields_full:
                        return
                    else:
                        event.add_dynamic(name, value)
        else:
            return
        if not one.continued:
            return
