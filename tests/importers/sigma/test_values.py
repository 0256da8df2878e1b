"""Modifiers and values of Sigma, by events that hit and near misses, in both forms of Windows events."""

import base64
from typing import Any

import pytest

from tests.importers.sigma.kit import SYSMON, Translated, as_json, rule, windows

HIT, MISS = True, False


def check(selection: Any, **data: str) -> bool:
    translated = Translated(rule({"selection": selection}))
    assert translated.lines[0].result == "imported", translated.reason()
    found = translated.fires(windows(SYSMON, 1, **data))
    assert found is translated.fires(as_json(SYSMON, 1, **data))
    return found


@pytest.mark.parametrize(
    ("selection", "value", "hits"),
    [
        ({"Image": "cmd.exe"}, "CMD.exe", HIT),
        ({"Image": "cmd.exe"}, "cmd.exe2", MISS),
        ({"Image|contains": "\\Temp\\"}, "C:\\temp\\x", HIT),
        ({"Image|contains": "\\Temp\\"}, "C:\\temp", MISS),
        ({"Image|startswith": "C:\\Temp\\"}, "C:\\temp\\x", HIT),
        ({"Image|startswith": "C:\\Temp\\"}, "DC:\\temp\\x", MISS),
        ({"Image|endswith": "\\cmd.exe"}, "C:\\Windows\\cmd.exe", HIT),
        ({"Image|endswith": "\\cmd.exe"}, "C:\\Windows\\xcmd.exe", MISS),
        ({"Image|endswith": "\\"}, "C:\\Windows\\", HIT),
        ({"Image|endswith": ["\\a\\", "\\b\\"]}, "C:\\b\\", HIT),
        ({"Image|contains": ["|x", "a<b", "^c", "d$", "!e", "(f"]}, "1(f1", HIT),
        ({"Image|contains": ["|x", "a<b", "^c", "d$", "!e", "(f"]}, "1!e1", HIT),
        ({"Image|contains": ["|x", "a<b", "^c", "d$", "!e", "(f"]}, "1d$1", HIT),
        ({"Image|contains": ["|x", "a<b", "^c", "d$", "!e", "(f"]}, "1^c1", HIT),
        ({"Image|contains": ["|x", "a<b", "^c", "d$", "!e", "(f"]}, "1a<b1", HIT),
        ({"Image|contains": ["|x", "a<b", "^c", "d$", "!e", "(f"]}, "1|x1", HIT),
        ({"Image|contains": ["|x", "a<b", "^c", "d$", "!e", "(f"]}, "x|a|b^d|e!f(", MISS),
        ({"Image": "!x"}, "!X", HIT),
        ({"Image": "^x$"}, "^x$", HIT),
        ({"Image": "^x$"}, "x", MISS),
        ({"Image|startswith": "x$"}, "x$y", HIT),
        ({"Image|startswith": "x$"}, "x", MISS),
        ({"Image|endswith": "^x"}, "y^x", HIT),
        ({"Image|endswith": "^x"}, "x", MISS),
        ({"Image|contains": "Ünder"}, "xüNDERx", HIT),
        ({"Image|contains": "Ünder"}, "xunderx", MISS),
        ({"Image|contains": "漢"}, "x漢", HIT),
        ({"Image|contains": "say \"hi\" & 'go' <now>"}, "Say \"Hi\" & 'go' <now>!", HIT),
    ],
)
def test_texts(selection: Any, value: str, hits: bool) -> None:
    assert check(selection, Image=value) is hits


@pytest.mark.parametrize(
    ("pattern", "value", "hits"),
    [
        ("C:\\\\*\\cmd.exe", "c:\\Users\\x\\cmd.exe", HIT),
        ("C:\\\\*\\cmd.exe", "c:\\cmd.exe", MISS),
        ("*a?c*", "xabcx", HIT),
        ("*a?c*", "xaücx", HIT),
        ("*a?c*", "xacx", MISS),
        ("a?c", "abbc", MISS),
        ("?", "漢", HIT),
        ("?", "漢x", MISS),
        ("a*", "abc", HIT),
        ("*", "anything", HIT),
        (r"a\*b", "a*b", HIT),
        (r"a\*b", "axb", MISS),
        (r"a\?b", "a?b", HIT),
        (r"a\?b", "axb", MISS),
        (r"a\\*b", r"a\xxb", HIT),
        (r"a\\*b", "axxb", MISS),
        (r"a\\\*b", r"a\*b", HIT),
        (r"a\\\*b", r"a\xb", MISS),
        (r"a\b", r"a\b", HIT),
        (r"a\\b", r"a\b", HIT),
        ("*.e.e", "x.e.e", HIT),
        ("*.e.e", "x.eee", MISS),
    ],
)
def test_wildcards_and_escapes(pattern: str, value: str, hits: bool) -> None:
    assert check({"CommandLine": pattern}, CommandLine=value) is hits


@pytest.mark.parametrize(
    ("selection", "value", "hits"),
    [
        ({"CommandLine|contains|all": [" -a", "-b "]}, "x -b -a", HIT),
        ({"CommandLine|contains|all": [" -a", "-b "]}, "x -b", MISS),
        ({"CommandLine|contains|windash": " -enc"}, "x /enc", HIT),
        ({"CommandLine|contains|windash": " -enc"}, "x –enc", HIT),
        ({"CommandLine|contains|windash": " -enc"}, "x enc", MISS),
        ({"CommandLine|contains|cased": "Abc"}, "xAbcx", HIT),
        ({"CommandLine|contains|cased": "Abc"}, "xabcx", MISS),
        ({"CommandLine|cased": "Abc"}, "Abc", HIT),
        ({"CommandLine|cased": "Abc"}, "aBC", MISS),
        ({"CommandLine|re": r"net\s+user\s+\S+\s+/add$"}, "net  user x /add", HIT),
        ({"CommandLine|re": r"net\s+user\s+\S+\s+/add$"}, "NET  user x /add", MISS),
        ({"CommandLine|re|i": r"net\s+user\s+\S+\s+/add$"}, "NET  user x /add", HIT),
        ({"CommandLine|re|m": "^b$"}, "a\nb", HIT),
        ({"CommandLine|re": "^b$"}, "a\nb", MISS),
        ({"CommandLine|re|s": "a.b"}, "a\nb", HIT),
        ({"CommandLine|re": "a.b"}, "a\nb", MISS),
        ({"CommandLine|re": r"C:\\[^\\]+\\x"}, "C:\\y\\x", HIT),
        ({"CommandLine|re": r"C:\\[^\\]+\\x"}, "C:\\y\\z\\x", MISS),
        ({"CommandLine|re": "(?P<one>[ab])<(?P=one)>"}, "a<a>", HIT),
        ({"CommandLine|re": "a\\*b\\?"}, "a*b?", HIT),
        ({"CommandLine|re": "a\\*b\\?"}, "aab", MISS),
        ({"CommandLine|re": "'(?:\\\"|x)' \\\\$"}, "'\"' \\", HIT),
        ({"CommandLine|exists": True}, "x", HIT),
        ({"CommandLine|exists": False}, "x", MISS),
        ({"CommandLine|fieldref": "Image"}, "IMG", HIT),
        ({"CommandLine|fieldref": "Image"}, "imgs", MISS),
        ({"CommandLine|fieldref|startswith": "Image"}, "imgs", HIT),
        ({"CommandLine|fieldref|endswith": "Image"}, "animg", HIT),
        ({"CommandLine|fieldref|contains": "Image"}, "an img!", HIT),
        ({"CommandLine|fieldref|endswith": "Image"}, "imgs", MISS),
        ({"CommandLine|neq": "x"}, "y", HIT),
        ({"CommandLine|neq": "x"}, "X", MISS),
    ],
)
def test_modifiers(selection: Any, value: str, hits: bool) -> None:
    assert check(selection, CommandLine=value, Image="img") is hits


@pytest.mark.parametrize(
    ("selection", "value", "hits"),
    [
        ({"N": 5}, "5", HIT),
        ({"N": 5}, "55", MISS),
        ({"N": -5}, "-5", HIT),
        ({"N": 5000000000}, "5000000000", HIT),
        ({"N": 1.5}, "1.500000", HIT),
        ({"N": [1, "a"]}, "A", HIT),
        ({"N|lt": 5}, "4", HIT),
        ({"N|lt": 5}, "5", MISS),
        ({"N|lte": 5}, "5", HIT),
        ({"N|gt": 5}, "5.5", HIT),
        ({"N|gte": 5}, "4.9", MISS),
        ({"N|gte": 5}, "no number", MISS),
        ({"N|neq": 5}, "6", HIT),
        ({"N|neq": 5}, "5", MISS),
        ({"N": True}, "True", HIT),
        ({"N": False}, "true", MISS),
        ({"N|cidr": "192.0.2.0/24"}, "192.0.2.77", HIT),
        ({"N|cidr": "192.0.2.0/24"}, "192.0.3.77", MISS),
        ({"N|cidr": ["192.0.2.0/24", "2001:db8::/32"]}, "2001:DB8::1", HIT),
        ({"N|cidr": "192.0.2.0/24"}, "192.0.2.770", MISS),
    ],
)
def test_numbers_and_addresses(selection: Any, value: str, hits: bool) -> None:
    assert check(selection, N=value) is hits


def test_base64_at_every_offset() -> None:
    for text in ("needle", "a needle", "my needle", "the needle"):
        encoded = base64.b64encode(f"{text} in hay".encode()).decode()
        assert check({"CommandLine|base64offset|contains": "needle"}, CommandLine=f"x {encoded}")
    assert not check({"CommandLine|base64offset|contains": "needle"}, CommandLine=base64.b64encode(b"noodle").decode())
    assert check({"CommandLine|base64": "needle"}, CommandLine=base64.b64encode(b"needle").decode())


@pytest.mark.parametrize("modifier", ["wide", "utf16le"])
def test_base64_of_wide_texts(modifier: str) -> None:
    encoded = base64.b64encode("a needle".encode("utf-16-le")).decode()
    assert check({f"CommandLine|{modifier}|base64offset|contains": "needle"}, CommandLine=f"-enc {encoded}")
    assert not check({f"CommandLine|{modifier}|base64offset|contains": "noodle"}, CommandLine=f"-enc {encoded}")


def test_values_that_are_empty_or_absent() -> None:
    for nothing in (None, ""):
        assert check({"CommandLine": nothing}, Image="x")
        assert not check({"CommandLine": nothing}, CommandLine="x")
        assert check({"CommandLine": nothing}, CommandLine="")
    assert check({"CommandLine": [None, "x"]}, CommandLine="x")
    assert not check({"CommandLine|exists": True}, Image="x")
    assert check({"CommandLine|exists": False}, Image="x")
    assert not check({"CommandLine": "*"}, Image="x")


def test_a_dash_that_the_event_channel_drops() -> None:
    assert check({"CommandLine": "-"}, CommandLine="-", Image="x")
    assert not check({"CommandLine": "-"}, CommandLine="x")


def test_keywords_are_searched_in_all_values() -> None:
    assert check(["sekurlsa::", "C:\\x"], Image='see "SEKURLSA::logon"')
    assert check(["sekurlsa::", "C:\\x"], Image="c:\\X\\y")
    assert not check(["sekurlsa::"], Sekurlsa="x")
    assert check(["a*c"], Image="xabcx")
    assert not check(["a*c"], Image="a", CommandLine="c")
    assert check({"|all": ["one", "two"]}, Image="one", CommandLine="two")
    assert not check({"|all": ["one", "two"]}, Image="one")


@pytest.mark.parametrize(
    ("selection", "reason"),
    [
        ({"Image|expand": "%names%"}, "placeholder"),
        ({"Image|hour": 5}, "part of a time"),
        ({"Image|re": "a{2}(?<!b" + "c" * 3000 + ")"}, "longer"),
        ({"Image": "x" * 3000 + "<"}, "longer"),
        ([""], "empty keyword"),
    ],
)
def test_what_has_no_equivalent_is_reported(selection: Any, reason: str) -> None:
    translated = Translated(rule({"selection": selection}))
    assert (translated.lines[0].result, reason in translated.reason()) == ("untranslated", True), translated.reason()


def test_long_lists_are_several_elements() -> None:
    values = [f"value-{at:04d}-\\" for at in range(1000)]
    translated = Translated(rule({"selection": {"Image|contains": values}}))
    assert translated.fires(windows(Image="x value-0999-\\ y"))
    assert translated.fires(windows(Image="x value-0000-\\ y"))
    assert not translated.fires(windows(Image="x value-1000-\\ y"))
