"""What prose and comments point at exists: sections of documents, links between them, modules, classes."""

import re
from collections.abc import Iterator
from functools import cache
from itertools import chain
from pathlib import Path

ROOT = Path(__file__).parent.parent
PLACES = ("", "docs", "docs/reference")
"""Where a document may be that is named without its folder."""
ROOMS = sorted(folder.name for folder in (ROOT / "secmon").iterdir() if (folder / "__init__.py").exists())

SPACE = r"\s+(?:\#\s+)?"  # a citation may go on in the next line of a comment
SECTION = r"\d+(?:\.\d+)*"
SECTIONS = rf"{SECTION}(?:(?:-|{SPACE}to{SPACE}){SECTION})?"
ROW = rf"(?:(?:rows?|steps?){SPACE}\d+(?:{SPACE}to{SPACE}\d+)?|\#\d+|[QE]-?\d+)"
SEPARATOR = rf"(?:,?{SPACE}(?:and|or){SPACE}|,?{SPACE})"
CITATION = re.compile(
    rf"(?<![\w./-])(?P<document>[\w./-]*\w\.md)\b`*"
    rf"(?:{SPACE}(?P<cited>{SECTIONS}(?:{SEPARATOR}(?:{ROW}|{SECTIONS}))*)|,{SPACE}(?P<title>[A-Z][\w ]*)\))?"
)
HEADING = re.compile(r"^#+\s+(?P<title>.*)$", re.MULTILINE)
FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\((?P<target>[^)\s]+)\)")
MODULE = re.compile(r"(?<![\w./-])(?P<path>(?:[\w-]+/)*[\w-]{2,}\.py)\b")  # x.py is an example
PACKAGE = re.compile(rf"`(?P<path>secmon/\w+(?:/\w+)*|(?:{'|'.join(ROOMS)})(?:/\w+)+)/?`")
CLASS = re.compile(r"`~?(?:secmon\.)?(?P<module>(?:[a-z_]+\.)+)(?P<name>[A-Z]\w*)(?:\.\w+)*`")
OF_INSTALLATIONS = ("api/", "backup/")
"""Folders of installations that are named like rooms."""
WITH_EXAMPLES = (Path(__file__), Path(__file__).with_name("test_vocabulary.py"))
"""Tests that name what does not exist."""


def sources(*suffixes: str) -> Iterator[tuple[str, str]]:
    """Files of the repository with one of ``suffixes``: path and text."""
    folders = (ROOT / name for name in ("secmon", "tests", "bench", "docs", "changes"))
    for file in sorted(chain(*(folder.rglob("*") for folder in folders), [ROOT / "README.md"])):
        if file.suffix in suffixes and file not in WITH_EXAMPLES:
            yield str(file.relative_to(ROOT)), file.read_text()


def place(path: str, text: str, found: re.Match[str]) -> str:
    return f"{path}:{text.count(chr(10), 0, found.start()) + 1}"


@cache
def document(named: str, by: str) -> Path | None:
    """The document that the file ``by`` names."""
    candidates = (ROOT / place / named for place in (*PLACES, Path(by).parent))
    return next((found for found in candidates if found.is_file()), None)


@cache
def titles(file: Path) -> tuple[str, ...]:
    return tuple(found["title"] for found in HEADING.finditer(FENCED.sub("", file.read_text())))


@cache
def numbers(file: Path) -> frozenset[str]:
    """Sections of a document, by number."""
    found = (re.match(rf"({SECTION})\.?\s", title) for title in titles(file))
    return frozenset(match[1] for match in found if match)


@cache
def anchors(file: Path) -> frozenset[str]:
    """Anchors of a document's headings, as code hosts make them."""
    return frozenset(re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles(file))


def broken_citations(path: str, text: str) -> Iterator[str]:
    """Documents and sections that ``text`` names and that do not exist. Rows of tables are not looked at."""
    for found in CITATION.finditer(text):
        file = document(found["document"], path)
        if file is None:
            yield f"{place(path, text, found)}: no document {found['document']}"
            continue
        if found["title"] and found["title"] not in titles(file):
            yield f"{place(path, text, found)}: {found['document']} has no section {found['title']}"
        for section in re.findall(SECTION, re.sub(ROW, "", found["cited"] or "")):
            if section not in numbers(file):
                yield f"{place(path, text, found)}: {found['document']} has no section {section}"


def broken_links(path: str, text: str) -> Iterator[str]:
    prose = re.sub(r"(?ms)^```.*?^```$|`[^`\n]+`", lambda code: re.sub(r"\S", "x", code[0]), text)
    for found in LINK.finditer(prose):
        name, _, anchor = found["target"].partition("#")
        file = (ROOT / path).parent / name if name else ROOT / path
        if "://" not in name and not (file.exists() and (not anchor or anchor in anchors(file))):
            yield f"{place(path, text, found)}: {found['target']}"


@cache
def modules() -> frozenset[str]:
    """Names of all modules, without their folders."""
    folders = (ROOT / name for name in ("secmon", "tests", "bench", "scripts", "deploy"))
    return frozenset(file.name for file in chain(*(folder.rglob("*.py") for folder in folders)))


def exists(path: str, by: str) -> bool:
    """Whether ``path`` is below the root, ``secmon`` or the folder of ``by``; a mere name may be anywhere."""
    if "/" not in path and path in modules():
        return True
    bases = (ROOT, ROOT / "secmon", (ROOT / by).parent)
    return any((base / path).exists() or (base / f"{path}.py").exists() for base in bases)


def missing_modules(path: str, text: str) -> Iterator[str]:
    in_pages = PACKAGE.finditer(text) if Path(path).parent == Path("docs") else ()
    for found in chain(MODULE.finditer(text), in_pages):
        if not exists(found["path"], path) and not found["path"].startswith(OF_INSTALLATIONS):
            yield f"{place(path, text, found)}: {found['path']}"


def missing_classes(path: str, text: str) -> Iterator[str]:
    for found in CLASS.finditer(text):
        file = ROOT / "secmon" / found["module"].strip(".").replace(".", "/")
        sources = [each for each in (file.with_suffix(".py"), file / "__init__.py") if each.exists()]
        defined = any(re.search(rf"(?m)^(?:class )?{found['name']}\b", source.read_text()) for source in sources)
        if found["module"].split(".")[0] in ROOMS and not defined:
            yield f"{place(path, text, found)}: {found['module']}{found['name']}"


def test_sections_that_are_cited_exist() -> None:
    wrong = [each for path, text in sources(".py", ".md", ".yaml") for each in broken_citations(path, text)]
    assert not wrong, "\n" + "\n".join(wrong)


def test_links_between_documents_lead_somewhere() -> None:
    wrong = [each for path, text in sources(".md") for each in broken_links(path, text)]
    assert not wrong, "\n" + "\n".join(wrong)


def test_modules_that_are_named_exist() -> None:
    wrong = [each for path, text in sources(".py", ".md", ".yaml") for each in missing_modules(path, text)]
    assert not wrong, "\n" + "\n".join(wrong)


def test_classes_that_are_named_exist() -> None:
    wrong = [each for path, text in sources(".py", ".md") for each in missing_classes(path, text)]
    assert not wrong, "\n" + "\n".join(wrong)


def test_what_is_broken_is_found() -> None:
    text = """(rbac.md 5 and 99; cluster.md 3.1 to 3.77, manager.md 19, row 8), (conventions.md 0, steps 7 to 11;
    # ruleset.md
    # 6.99), nowhere.md 1, `secmon/nowhere/gone.py`, (architecture.md, Replication), (architecture.md, Gone)"""
    found = [each.partition(": ")[2] for each in broken_citations("docs/x.md", text)]
    assert found == [
        "rbac.md has no section 99",
        "cluster.md has no section 3.77",
        "ruleset.md has no section 6.99",
        "no document nowhere.md",
        "architecture.md has no section Gone",
    ]
    assert list(missing_modules("docs/x.md", text)) == ["docs/x.md:3: secmon/nowhere/gone.py"]
    classes = ":class:`~secmon.cluster.call.Call` ``cluster.call.Gone`` ``common.gone.Call`` ``tests.waiting.Gone``"
    gone = [each.partition(": ")[2] for each in missing_classes("docs/x.md", classes)]
    assert gone == ["cluster.call.Gone", "common.gone.Call"]
    links = "[a](groups.md#filesyml) [b](groups.md#gone) [c](gone.md) `[d](gone.md)`"
    assert list(broken_links("docs/x.md", links)) == ["docs/x.md:1: groups.md#gone", "docs/x.md:1: gone.md"]
