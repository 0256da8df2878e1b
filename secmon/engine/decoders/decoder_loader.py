"""Loads decoder files into the tree of decoders (ruleset.md 5.1 to 5.3)."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import cast, get_args

from secmon.engine.decoders.decoder import DECODED_LOGS, INTERNAL, Category, Decoder, Decoders, Offset
from secmon.engine.event import STATIC
from secmon.engine.matching import Expression, PatternError, compile_expression
from secmon.engine.matching.expression import Kind
from secmon.engine.ruleset.diagnostics import Diagnostics, RulesetError
from secmon.engine.ruleset.load_cache import ReadFiles
from secmon.engine.ruleset.ruleset_xml import Element, VariableError, XmlError, parse

LOCAL_FILE = "etc/decoders/local_decoder.xml"
"""The one file that may be empty."""
MAX_TEXT = 1024
"""Bytes of the joined texts of a repeated element; a text as long or longer is dropped."""
PLUGINS = (
    "PF_Decoder", "SymantecWS_Decoder", "SonicWall_Decoder", "OSSECAlert_Decoder", "JSON_Decoder", "EventXML_Decoder",
)  # fmt: skip
FTS_NAMES = frozenset(
    ("name", "user", "dstuser", "srcuser", "srcip", "dstip", "id", "location", "data", "extra_data", "system_name")
)
_KINDS = ("osregex", "pcre2")
_PROGRAM_KINDS = ("osmatch", "osregex", "pcre2")


class DecoderLoader:
    """Loads files in load order; :meth:`finish` completes the set."""

    def __init__(
        self, diagnostics: Diagnostics, *, order_size: int = 256, known: ReadFiles[Decoder] | None = None
    ) -> None:
        """``order_size``: names that one ``order`` may hold. ``known``: files of the previous load."""
        self._diagnostics = diagnostics
        self._order_size = order_size
        self._known = known or ReadFiles[Decoder]()
        self._decoders = Decoders()

    def load(self, file: str, data: bytes) -> None:
        """Add the decoders of one file. Raises RulesetError."""
        for one in self._known.read(file, data, self._diagnostics, self._read):
            self._add(replace(one, children=[]))  # what was read is kept unchanged for the next load

    def _read(self, file: str, data: bytes, diagnostics: Diagnostics) -> list[Decoder]:
        try:
            roots = parse(data)
        except VariableError as error:
            raise RulesetError(1227, f"variable error: {error.problem}", file=file, line=error.line) from None
        except XmlError as error:
            raise RulesetError(1226, f"XML error: {error.problem}", file=file, line=error.line) from None
        if not roots and file != LOCAL_FILE:
            raise RulesetError(1226, "the file holds no element", file=file)
        return [_Reader(file, element, at, diagnostics, self._order_size).read() for at, element in enumerate(roots)]

    def finish(self) -> Decoders:
        """Assign ids, and the names of parents to children."""
        made = self._decoders
        for name in (*(one.name for one in (*made.with_program, *made.without_program)), *INTERNAL, *DECODED_LOGS):
            made.ids.setdefault(name, len(made.ids) + 1)
        for root in (*made.with_program, *made.without_program):
            root.id = made.ids[root.name]
            for child in root.children:
                if child.use_own_name:
                    child.name = child.own_name
                    child.id = made.ids.setdefault(child.own_name, len(made.ids) + 1)
                else:
                    made.ids.setdefault(child.own_name, len(made.ids) + 1)
                    child.name, child.id = root.name, root.id
        for name in (*INTERNAL, *DECODED_LOGS):
            category: Category = "ossec" if name in INTERNAL else "syslog"
            made.internal[name] = Decoder(name, "", 0, id=made.ids[name], own_name=name, category=category)
        return made

    def _add(self, decoder: Decoder) -> None:
        if decoder.parent is None:
            (self._decoders.with_program if decoder.has_program else self._decoders.without_program).append(decoder)
            return
        parents = self._decoders.roots(decoder.parent)
        if not parents:
            raise _error(decoder, 2101, f"parent decoder {decoder.parent!r} is not known")
        for parent in parents:
            _check_siblings(parent, decoder)
            parent.children.append(decoder)


def _check_siblings(parent: Decoder, decoder: Decoder) -> None:
    """Check a decoder that continues an earlier one of the same name (ruleset.md 5.2). Raises RulesetError."""
    earlier = [one for one in parent.children if one.own_name == decoder.own_name and one is not decoder]
    if not earlier:
        if decoder.regex_offset is Offset.AFTER_REGEX:
            raise _error(decoder, 2120, "offset after_regex needs an earlier decoder of the same name")
        return
    if decoder.prematch is not None:
        raise _error(decoder, 2102, f"decoder {decoder.own_name!r} exists: it cannot have a second prematch")
    if decoder.fts:
        raise _error(decoder, 2103, f"decoder {decoder.own_name!r} exists: it cannot have fts again")
    if any(one.regex is None and one.plugin is None for one in (decoder, earlier[-1])):
        raise _error(decoder, 2104, f"decoder {decoder.own_name!r} exists, and one of the two has no regex")
    if decoder.regex_offset is Offset.AFTER_REGEX and all(
        one.prematch is None and one.regex is None for one in earlier
    ):
        raise _error(decoder, 2120, "offset after_regex needs an earlier decoder with a prematch or a regex")
    earlier[-1].continued = True


def _error(decoder: Decoder, number: int, text: str) -> RulesetError:
    return RulesetError(number, f"decoder {decoder.own_name!r}: {text}", file=decoder.file, line=decoder.line)


class _Reader:
    """Reads one ``decoder`` element."""

    def __init__(self, file: str, element: Element, position: int, diagnostics: Diagnostics, order_size: int) -> None:
        self._file, self._element = file, element
        self._diagnostics, self._order_size = diagnostics, order_size
        name = element.attributes.get("name", b"").decode("utf-8", "replace")
        self._decoder = Decoder(name, file, element.line, position=position, own_name=name)
        self._texts: dict[str, bytes] = {}
        self._kinds: dict[str, Kind] = {}
        self._dropped: set[str] = set()

    def read(self) -> Decoder:
        """Raises RulesetError."""
        element, decoder = self._element, self._decoder
        if element.key != "decoder":
            raise self._error(1230, f"invalid element {element.name!r}", element)
        names = list(element.attributes)
        if names[:1] != ["name"] or names[1:] not in ([], ["status"]):
            raise self._error(2110, f"a decoder has the attribute name, not {', '.join(names) or 'none'}", element)
        if not element.children:
            raise self._error(1231, "the decoder is empty", element)
        for child in element.children:
            self._child(child)
        self._patterns()
        self._validate()
        return decoder

    def _child(self, child: Element) -> None:
        simple: dict[str, Callable[[Element], None]] = {
            "order": self._order,
            "fts": self._fts,
            "plugin_decoder": self._plugin,
            "use_own_name": self._own_name,
            "accumulate": self._accumulate,
            "json_null_field": self._nulls,
            "json_array_structure": self._arrays,
            "json_prefix": self._prefix,
        }
        if child.key in ("regex", "prematch", "program_name", "parent", "ftscomment"):
            self._text(child)
        elif child.name == "type":
            self._type(child)
        elif child.key in simple:
            simple[child.key](child)
        else:
            raise self._error(1230, f"invalid element {child.name!r}", child)

    def _text(self, child: Element) -> None:
        """Repetitions of an element are joined; the type of the last and the offset of the first one count."""
        key = child.key
        if "offset" in child.attributes:
            if key not in ("regex", "prematch"):
                raise self._error(2110, f"{key} takes no offset", child)
            if key in self._texts:
                raise self._error(2109, f"only the first {key} may have an offset", child)
            offset = self._offset(child)
            if key == "regex":
                self._decoder.regex_offset = offset
            else:
                self._decoder.prematch_offset = offset
        if "type" in child.attributes or key not in self._kinds:
            self._kinds[key] = self._kind(child)
        joined = self._texts.get(key, b"") + child.content
        if len(joined) >= MAX_TEXT:
            self._dropped.add(key)
            self._warn(1104, f"{key} is longer than {MAX_TEXT} bytes, and counts as missing", child)
        self._texts[key] = joined

    def _kind(self, child: Element) -> Kind:
        allowed, default = (_PROGRAM_KINDS, "osmatch") if child.key == "program_name" else (_KINDS, "osregex")
        value = child.attributes.get("type", b"").decode("latin-1").lower()
        if value and value not in allowed:
            self._warn(7601, f"type {value!r} of {child.key} is not known; {default} is used", child)
        return cast(Kind, value if value in allowed else default)

    def _offset(self, child: Element) -> Offset:
        value = child.attributes["offset"].decode("latin-1").lower()
        try:
            return Offset(value)
        except ValueError:
            if child.key == "plugin_decoder":
                raise self._error(2120, f"invalid offset {value!r}", child) from None
            self._warn(7601, f"offset {value!r} of {child.key} is not known, and ignored", child)
            return Offset.NONE

    def _order(self, child: Element) -> None:
        names = tuple(name.strip().decode("utf-8", "replace") for name in child.content.split(b","))
        if not all(names):
            raise self._error(1231, "order holds an empty name", child)
        if len(names) > self._order_size:
            raise self._error(2110, f"order holds more than {self._order_size} names", child)
        self._decoder.order += tuple("dstuser" if name == "user" else name for name in names)

    def _fts(self, child: Element) -> None:
        self._decoder.fts += tuple(name.strip().decode("utf-8", "replace") for name in child.content.split(b","))

    def _plugin(self, child: Element) -> None:
        name = child.content.decode("latin-1")
        if name not in PLUGINS:
            raise self._error(2110, f"plugin_decoder {name!r} is not known", child)
        self._decoder.plugin = name
        if "offset" in child.attributes:
            self._decoder.plugin_offset = self._offset(child)

    def _own_name(self, child: Element) -> None:
        self._decoder.use_own_name = child.content == b"true"

    def _accumulate(self, child: Element) -> None:
        self._decoder.accumulate = True

    def _type(self, child: Element) -> None:
        if child.text not in get_args(Category):
            raise self._error(2110, f"type {child.text!r} is not known", child)
        self._decoder.category = cast(Category, child.text)

    def _nulls(self, child: Element) -> None:
        if child.text not in ("string", "discard"):
            number = 7603 if child.text == "empty" else 7602
            self._warn(number, f"json_null_field {child.text!r}: string is used", child)
        self._decoder.discard_nulls = child.text == "discard"

    def _arrays(self, child: Element) -> None:
        if child.text not in ("array", "csv"):
            self._warn(7602, f"json_array_structure {child.text!r}: array is used", child)
        self._decoder.csv_arrays = child.text == "csv"

    def _prefix(self, child: Element) -> None:
        if not child.text:
            raise self._error(1231, "json_prefix is empty", child)
        self._decoder.json_prefix = (child.attributes.get("from", b"").decode("utf-8", "replace"), child.text)

    # -- after all elements

    def _patterns(self) -> None:
        decoder = self._decoder
        decoder.parent = self._plain("parent")
        decoder.ftscomment = self._plain("ftscomment")
        decoder.prematch, decoder.regex = self._compiled("prematch"), self._compiled("regex")
        if decoder.parent is None and "program_name" in self._texts:
            decoder.program_name = self._compiled("program_name")
            decoder.any_program = decoder.program_name is None and "program_name" not in self._dropped

    def _plain(self, key: str) -> str | None:
        text = self._texts.get(key)
        return None if not text or key in self._dropped else text.decode("utf-8", "replace")

    def _compiled(self, key: str) -> Expression | None:
        text = self._texts.get(key)
        if not text or key in self._dropped:
            return None
        try:
            return compile_expression(self._kinds[key], text)
        except PatternError as error:
            raise self._error(1452, f"syntax error in {key} {text.decode('utf-8', 'replace')!r}: {error}") from None

    def _validate(self) -> None:
        """The checks of ruleset.md 5.2 that concern this decoder alone."""
        decoder = self._decoder
        if decoder.plugin and (decoder.regex or decoder.order):
            raise self._error(2111, "plugin_decoder cannot be combined with regex and order")
        if decoder.prematch is None and decoder.parent is None and not decoder.has_program:
            raise self._error(2108, "it needs a prematch, a parent or a program_name")
        if bool(decoder.order) != (decoder.regex is not None) or (decoder.fts and decoder.regex is None):
            raise self._error(2107, "order and fts need a regex, and a regex needs an order")
        self._validate_offsets()
        dynamic = {name.lower() for name in decoder.order if name not in STATIC}
        for name in decoder.fts:
            if name not in FTS_NAMES and name.lower() not in dynamic:
                raise self._error(2110, f"fts names {name!r}, which the decoder does not extract")

    def _validate_offsets(self) -> None:
        decoder = self._decoder
        orphan = decoder.parent is None
        if decoder.regex_offset is Offset.AFTER_PREMATCH:
            if orphan:
                decoder.regex_offset = Offset.AFTER_PARENT
            elif decoder.prematch is None:
                raise self._error(2120, "offset after_prematch needs a prematch")
        elif decoder.regex_offset is not Offset.NONE and orphan:
            raise self._error(2120, f"offset {decoder.regex_offset.value} needs a parent")
        if decoder.prematch_offset is not Offset.NONE and (
            decoder.prematch_offset is not Offset.AFTER_PARENT or orphan
        ):
            raise self._error(2120, "a prematch can only have the offset after_parent, below a parent")
        if decoder.plugin_offset is Offset.AFTER_PARENT and orphan:
            raise self._error(2120, "offset after_parent needs a parent")
        if decoder.plugin_offset is Offset.AFTER_PREMATCH and decoder.prematch is None:
            raise self._error(2120, "offset after_prematch needs a prematch")

    def _warn(self, number: int, text: str, at: Element) -> None:
        self._diagnostics.warn(number, f"decoder {self._decoder.own_name!r}: {text}", file=self._file, line=at.line)

    def _error(self, number: int, text: str, at: Element | None = None) -> RulesetError:
        line = (at or self._element).line
        return RulesetError(number, f"decoder {self._decoder.own_name!r}: {text}", file=self._file, line=line)


def load_decoders(
    files: Iterable[tuple[str, bytes]],
    diagnostics: Diagnostics,
    *,
    order_size: int = 256,
    known: ReadFiles[Decoder] | None = None,
) -> Decoders:
    """All decoders of ``files`` (name and content, in load order). Raises RulesetError."""
    loader = DecoderLoader(diagnostics, order_size=order_size, known=known)
    for file, data in files:
        loader.load(file, data)
    return loader.finish()
