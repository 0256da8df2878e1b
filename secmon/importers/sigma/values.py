"""Values of Sigma as tests of one text: OS_Match where it can say the same, else PCRE2.

Sigma compares letters of either case alike, OS_Match those of ASCII: a value with other letters becomes PCRE2 with both
forms. OS_Match has no escapes, and files of rules none for ``<``: values with such characters become PCRE2 too.
"""

import re
from collections.abc import Callable, Sequence

import pcre2  # type: ignore[import-untyped]  # the package has no stubs
from sigma.types import (
    CompareOperators,
    Placeholder,
    SigmaBool,
    SigmaCasedString,
    SigmaCIDRExpression,
    SigmaCompareExpression,
    SigmaExists,
    SigmaExpansion,
    SigmaNull,
    SigmaNumber,
    SigmaRegularExpression,
    SigmaString,
    SigmaTimestampPart,
    SigmaType,
    SpecialChars,
)

from secmon.importers.sigma.conditions import MAX_ALTERNATIVE, MAX_CONTENT, Condition, Kind, TextTest, any_of, none_of

MakeTest = Callable[[Kind, bytes], TextTest]
"""Makes the test of the text in question."""

_ONE_CHARACTER = rb"(?>[\xc2-\xf4][\x80-\xbf]+|[\x00-\xff])"
_PLAIN = frozenset(b" !\"#%&',-/:;=>@_`~") | frozenset(range(0x30, 0x3A)) | frozenset(range(0x41, 0x5B))
_UNESCAPED = _PLAIN | frozenset(range(0x61, 0x7B))
_OPERATORS = {
    CompareOperators.LT: b"lt",
    CompareOperators.LTE: b"lte",
    CompareOperators.GT: b"gt",
    CompareOperators.GTE: b"gte",
}
_ANGLES = re.compile(
    rb"\\k<(?P<back>\w+)>|\\g<(?P<call>[\w+-]+)>|\\<|(?P<escaped>\\.)|\(\?P?<(?P<name>[A-Za-z_]\w*)>"
    rb"|(?P<behind>\(\?<=)|(?P<not_behind>\(\?<!)|(?P<angle><)|(?P<control>[\x00-\x1f])",
    re.DOTALL,
)
_ANCHORS = re.compile(r"[$^]|\\[AzZ]")
_WITHIN_A_VALUE = b"[^\\x00]*"
"""In the values of all fields, between which there are NULs."""
_SMALL_NUMBER = 2**31


class Untranslatable(Exception):
    """What our language, or this import, has no equivalent for; the text says what."""


def condition_of(value: SigmaType, make: MakeTest) -> Condition:
    """The condition that a text has this value. Raises Untranslatable."""
    match value:
        case SigmaExpansion():
            return any_of(condition_of(one, make) for one in value.values)
        case SigmaString():
            return _string(value, make)
        case SigmaTimestampPart():
            raise Untranslatable("it compares a part of a time")
        case SigmaNumber():
            return _number(value.number, make)
        case SigmaBool():
            return make("osmatch", b"^true$" if value.boolean else b"^false$")
        case SigmaNull():
            return none_of(_has_value(make))
        case SigmaExists():
            exists = make("osmatch", b"")
            return exists if value.exists else none_of(exists)
        case SigmaRegularExpression():
            return make("pcre2", _regex(value))
        case SigmaCIDRExpression():
            return make("cidr", str(value.network).encode())
        case SigmaCompareExpression():
            return _comparison(value, make)
    raise Untranslatable(f"it has a value of the kind {type(value).__name__}")


def keyword_of(value: SigmaType, make: MakeTest) -> Condition:
    """The condition that a whole log contains this value. Raises Untranslatable."""
    if isinstance(value, SigmaNumber) and not isinstance(value, SigmaTimestampPart):
        value = SigmaString(_decimal(value.number).decode())
    if isinstance(value, SigmaExpansion):
        return any_of(keyword_of(one, make) for one in value.values)
    if isinstance(value, SigmaString):
        parts = [part for part in value.s if part != ""]
        if not parts:
            raise Untranslatable("an empty keyword")
        return _pattern(_trimmed(parts), make, cased=isinstance(value, SigmaCasedString), wildcard=_WITHIN_A_VALUE)
    if isinstance(value, SigmaRegularExpression):
        if _ANCHORS.search(value.regexp.original):
            raise Untranslatable("a regular expression with anchors as a keyword")
        return condition_of(value, make)
    raise Untranslatable(f"a keyword of the kind {type(value).__name__}")


Part = str | SpecialChars | Placeholder
_MULTI, _SINGLE = SpecialChars.WILDCARD_MULTI, SpecialChars.WILDCARD_SINGLE


def _string(value: SigmaString, make: MakeTest) -> Condition:
    parts: list[Part] = [part for part in value.s if part != ""]
    if not parts:
        return none_of(make("pcre2", b"."))
    cased = isinstance(value, SigmaCasedString)
    return _pattern(parts, make, cased=cased)


def _trimmed(parts: Sequence[Part]) -> list[Part]:
    """Of a text that may stand anywhere."""
    inner = list(parts)
    while inner and inner[0] is _MULTI:
        del inner[0]
    while inner and inner[-1] is _MULTI:
        del inner[-1]
    return [_MULTI, *inner, _MULTI]


def _pattern(parts: Sequence[Part], make: MakeTest, *, cased: bool, wildcard: bytes = b".*") -> Condition:
    for part in parts:
        if isinstance(part, Placeholder):
            raise Untranslatable(f"the placeholder %{part.name}% has no values")
    starts, ends = parts[0] is not _MULTI, parts[-1] is not _MULTI
    texts = [part for part in parts if part is not _MULTI]
    if not texts:
        return make("osmatch", b"")
    if not cased and len(texts) == 1 and isinstance(texts[0], str):
        simple = _osmatch(texts[0], starts=starts, ends=ends)
        if simple is not None:
            return make("osmatch", simple)
    body = b"".join(_element(part, cased, wildcard) for part in _inner(parts))
    flags = b"(?s)" if cased else b"(?is)"
    return make("pcre2", _bounded(flags + (b"\\A" if starts else b"") + body + (b"\\z" if ends else b"")))


def _inner(parts: Sequence[Part]) -> Sequence[Part]:
    """Without wildcards at both ends, which an unanchored search has by itself."""
    return parts[parts[0] is _MULTI : len(parts) - (parts[-1] is _MULTI)]


def _osmatch(text: str, *, starts: bool, ends: bool) -> bytes | None:
    """The text as an alternative of OS_Match; None where that cannot say it."""
    if "|" in text or "<" in text or not text.isprintable() or (not text.isascii() and text.swapcase() != text):
        return None
    if not starts and text.startswith(("^", "!")):
        return None
    if not ends and text.endswith("$"):
        return None
    found = (b"^" if starts else b"") + text.encode() + (b"$" if ends else b"")
    return found if len(found) <= MAX_ALTERNATIVE else None


def escaped(text: str) -> bytes:
    """The text as a part of a pattern that ignores case."""
    return _element(text, cased=False)


def _element(part: Part, cased: bool, wildcard: bytes = b"") -> bytes:
    if part is _MULTI:
        return wildcard
    if part is _SINGLE:
        return _ONE_CHARACTER
    assert isinstance(part, str), "placeholders are refused before"
    return b"".join(_character(one, cased=cased) for one in part)


def _character(one: str, *, cased: bool) -> bytes:
    forms = {one} if cased or one.isascii() else {one, one.lower(), one.upper()}
    made = [b"".join(_byte(byte) for byte in form.encode("utf-8", "surrogatepass")) for form in sorted(forms)]
    return made[0] if len(made) == 1 else b"(?:" + b"|".join(made) + b")"


def _byte(byte: int) -> bytes:
    if byte in _UNESCAPED:
        return bytes((byte,))
    if byte == ord("<") or not 0x20 < byte < 0x7F:
        return b"\\x%02x" % byte
    return b"\\" + bytes((byte,))


def _regex(value: SigmaRegularExpression) -> bytes:
    flags = "".join(sorted(value.sigma_to_re_flag[flag] for flag in value.flags))
    text = value.regexp.original
    pattern = _ANGLES.sub(_without_angles, text.encode("utf-8", "surrogatepass"))
    made = _bounded((f"(?{flags})".encode() if flags else b"") + pattern)
    try:
        pcre2.compile(made)
    except (pcre2.PatternError, pcre2.LibraryError) as error:
        raise Untranslatable(f"its regular expression {text[:80]!r} is not valid: {error}") from None
    return made


def _without_angles(found: re.Match[bytes]) -> bytes:
    """The same construct without ``<``, which would begin an element."""
    kind = found.lastgroup
    if kind == "escaped":
        return found[0]
    if kind == "name":
        return b"(?'" + found["name"] + b"'"
    if kind in ("back", "call"):
        return (b"\\k'" if kind == "back" else b"\\g'") + found[kind] + b"'"
    if kind in ("behind", "not_behind"):
        return b"(*plb:" if kind == "behind" else b"(*nlb:"
    return b"\\x%02x" % found[0][-1]


def _bounded(pattern: bytes) -> bytes:
    if len(pattern) > MAX_CONTENT:
        raise Untranslatable(f"a value is longer than {MAX_CONTENT} bytes")
    return pattern


def _number(number: int | float, make: MakeTest) -> Condition:
    """Numbers that JSON and texts write alike are compared as texts, which an index can use."""
    if isinstance(number, int) and abs(number) < _SMALL_NUMBER:
        return make("osmatch", b"^%d$" % number)
    return make("number", b"eq " + _decimal(number))


def _comparison(value: SigmaCompareExpression, make: MakeTest) -> Condition:
    if isinstance(value.number, SigmaTimestampPart):
        raise Untranslatable("it compares a part of a time")
    if value.op in _OPERATORS:
        return make("number", _OPERATORS[value.op] + b" " + _decimal(value.number.number))
    return none_of(_number(value.number.number, make))


def _decimal(number: int | float) -> bytes:
    text = str(number) if isinstance(number, int) else f"{number:f}"
    if len(text) > 30 or not re.fullmatch(r"-?\d+(?:\.\d+)?", text):
        raise Untranslatable(f"the number {text[:40]} is too long")
    return text.encode()


def _has_value(make: MakeTest) -> Condition:
    """Any value but the empty one and the ``null`` of JSON."""
    return make("pcre2", rb"(?s)\A(?!null\z).")
