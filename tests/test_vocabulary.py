"""One vocabulary: names and turns of speech that were replaced do not come back.

``retired_names.txt`` has one name per line, sorted, with the word to use where there is one::

    Complaints -> WarningLimiter            a class, function, variable, parameter or attribute, anywhere
    floor.py -> connection_pool.py          a module of this name, anywhere; its test has the same name
    engine/worker.py -> analysis_thread.py  a module, with the end of its path
    engine/patterns/ -> engine/matching/    a folder, with the end of its path
"""

import ast
import re
from collections.abc import Iterator, Mapping
from functools import cache
from io import StringIO
from itertools import chain
from pathlib import Path
from tokenize import COMMENT, STRING, generate_tokens

from tests.offenders import Offenders

ROOT = Path(__file__).parent.parent
OWN = str(Path(__file__).relative_to(ROOT))
LIST = Path(__file__).with_name("retired_names.txt")
GLOSSARY = "see docs/glossary.md"
ENTRY = re.compile(r"(?P<name>_?[A-Za-z]\w*|(?:\w+/)*\w+(?:\.py|/))(?: -> (?P<use>\S.*))?")


PHRASES = {
    "afresh": "again, from the beginning",
    "aloud": "log at WARNING, log at ERROR",
    "anew": "again, from the beginning",
    "for ever": "without end, until stopped",
    "loudly": "log at ERROR",
    "in hand": "in flight, in progress",
    "nobody": "no caller, no process: name what is missing",
    "somebody": "a caller, a process: name it",
    "stands": "is, remains, occurs",
    "stood": "was, remained",
    "tells": "says, names, reports, shows",
    "told": "informed, reported, logged, named",
    "whoever": "the caller, the reader: name it",
}
"""Words without a subject or a fact, and what a sentence has instead."""
PHRASE = re.compile(rf"\b(?:{'|'.join(PHRASES)})\b(?! (?:in )?for\b)".replace(" ", r"\s+"), re.IGNORECASE)
"""One of them; what stands for something else may do so."""
QUOTED = re.compile(r"^```.*?^```$|`[^`\n]+`", re.MULTILINE | re.DOTALL)


@cache
def python() -> Mapping[str, str]:
    """Modules of the product, of its tests and benchmarks: path from the root, and text."""
    files = chain(*((ROOT / folder).rglob("*.py") for folder in ("secmon", "tests", "bench", "deploy", "scripts")))
    return {str(file.relative_to(ROOT)): file.read_text() for file in sorted(files) if "gen" not in file.parts}


def pages() -> Iterator[tuple[str, str]]:
    """Documents: path from the root, and text."""
    for file in sorted([*(ROOT / "docs").rglob("*.md"), *(ROOT / "changes").glob("*.md"), ROOT / "README.md"]):
        yield str(file.relative_to(ROOT)), file.read_text()


def entries(text: str) -> dict[str, str]:
    """Retired names and what to use instead."""
    found = [(line, ENTRY.fullmatch(line)) for line in text.splitlines()]
    assert [line for line, entry in found if entry is None] == []
    return {entry["name"]: entry["use"] or GLOSSARY for _, entry in found if entry}


def retired_modules(paths: Mapping[str, str], retired: Mapping[str, str]) -> Iterator[str]:
    for path in paths:
        named = "/" + path.replace("/test_", "/")
        for name, use in retired.items():
            if (name.endswith("/") and f"/{name}" in named) or (name.endswith(".py") and named.endswith(f"/{name}")):
                yield f"{path}: {name} is retired: {use}"


def bound(node: ast.AST) -> str | None:
    """The name that a node of the syntax tree gives to something."""
    match node:
        case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            return name
        case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()) | ast.arg(arg=name):
            return name
        case ast.alias(asname=str(name)) | ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)):
            return name
    return None


def retired_identifiers(path: str, text: str, retired: Mapping[str, str]) -> Iterator[str]:
    """Names that ``text`` gives, private ones without their underscores. Names in prose are not looked at."""
    words = {word.lstrip("_") for word in re.findall(r"\w+", text)}
    if words.isdisjoint(retired):  # most modules are not parsed
        return
    for node in ast.walk(ast.parse(text)):
        name = (bound(node) or "").lstrip("_")
        if name in retired:
            yield f"{path}:{getattr(node, 'lineno', 0)}: {name} is retired: {retired[name]}"


def prose(source: str) -> str:
    """Comments and docstrings of a module, on the lines where they are."""
    lines = [""] * (source.count("\n") + 2)
    for token in generate_tokens(StringIO(source).readline):
        if token.type == COMMENT or (token.type == STRING and token.string.startswith('"""')):
            for number, line in enumerate(token.string.split("\n"), token.start[0] - 1):
                lines[number] += line
    return "\n".join(lines)


def phrases(path: str, text: str) -> Iterator[str]:
    text = QUOTED.sub(lambda quoted: re.sub(r"\S", "x", quoted[0]), text)
    for found in PHRASE.finditer(text):
        line = text.count("\n", 0, found.start()) + 1
        phrase = re.sub(r"\s+", " ", found[0])
        yield f"{path}:{line}: {phrase}: {PHRASES[phrase.lower()]}"


def test_the_list_is_sorted_and_names_everything_once() -> None:
    lines = LIST.read_text().splitlines()
    names = [line.partition(" -> ")[0] for line in lines]
    assert names == sorted(set(names))
    assert len(entries(LIST.read_text())) == len(lines)


def test_retired_modules_do_not_come_back() -> None:
    wrong = list(retired_modules(python(), entries(LIST.read_text())))
    assert not wrong, "\n" + "\n".join(wrong)


def test_retired_identifiers_do_not_come_back() -> None:
    retired = entries(LIST.read_text())
    wrong = [each for path, text in python().items() for each in retired_identifiers(path, text, retired)]
    assert not wrong, "\n" + "\n".join(wrong)


def test_pages_are_in_plain_technical_english() -> None:
    wrong = [each for path, text in pages() for each in phrases(path, text)]
    assert not wrong, "\n" + "\n".join(wrong)


def test_comments_and_docstrings_are_in_plain_technical_english() -> None:
    modules = [(path, text) for path, text in python().items() if PHRASE.search(text) and path != OWN]
    wrong = [each for path, text in modules for each in phrases(path, prose(text))]
    assert not wrong, "\n" + "\n".join(wrong)


def glossary() -> Iterator[tuple[str, list[str]]]:
    """Terms of each table in order, with the places in the code that the table names."""
    for table in (ROOT / "docs" / "glossary.md").read_text().split("\n## ")[1:]:
        for line in table.splitlines()[4:]:
            term, _, code = line.strip("|").split(" | ")
            yield f"{table.splitlines()[0]}: {term.strip()}", re.findall(r"`([^`]+)`", code)


def test_the_glossary_is_sorted_and_its_places_exist() -> None:
    rows = list(glossary())
    terms = [term for term, _ in rows]
    assert len(terms) > 50
    assert len({term.split(": ")[1] for term in terms}) == len(terms)
    tables = list(dict.fromkeys(term.split(":")[0] for term in terms))
    assert terms == sorted(terms, key=lambda term: (tables.index(term.split(":")[0]), term.lower()))
    with Offenders() as offenders:
        for term, places in rows:
            with offenders.row(term):
                assert places
                assert [place for place in places if not (ROOT / "secmon" / place).exists()] == []


def test_what_is_retired_is_found() -> None:
    retired = {"Floor": "ConnectionPool", "seen": GLOSSARY, "floor.py": "pool.py", "a/b.py": "c.py", "old/": "new/"}
    paths = ["secmon/x/floor.py", "tests/x/test_floor.py", "secmon/a/b.py", "secmon/b.py", "secmon/old/x.py"]
    found = [each.partition(":")[0] for each in retired_modules(dict.fromkeys(paths, ""), retired)]
    assert found == ["secmon/x/floor.py", "tests/x/test_floor.py", "secmon/a/b.py", "secmon/old/x.py"]
    text = "class _Floor: ...\nimport a as seen\ndef f(seen): ...\nself._seen = floor = 1\nprint(seen, 'Floor')\n"
    names = [each.split(" is ")[0] for each in retired_identifiers("m.py", text, retired)]
    assert sorted(names) == ["m.py:1: Floor", "m.py:2: seen", "m.py:3: seen", "m.py:4: seen"]
    page = "Nobody `nobody`\nwaits for\never.\n```\nanew\n```\n"
    assert [each.split(": ")[1] for each in phrases("p.md", page)] == ["Nobody", "for ever"]
    module = 'x = "nobody"  # told\n"""Whoever\nwaits."""\n'
    assert [each.split(": ")[:2] for each in phrases("m.py", prose(module))] == [
        ["m.py:1", "told"],
        ["m.py:2", "Whoever"],
    ]
