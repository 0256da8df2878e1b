"""Imports Sigma rules: translates all files below a path, and replaces what an earlier import has made."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

from secmon.cluster.node import Changed, Finding
from secmon.common.file_io import write_file
from secmon.common.paths import Paths
from secmon.importers.sigma.ids import IdMap, IdMapError
from secmon.importers.sigma.placeholders import read_values
from secmon.importers.sigma.report import SigmaLine, SigmaReport
from secmon.importers.sigma.rule_xml import file_of
from secmon.importers.sigma.source import BadFile, Document, find_files, read_documents
from secmon.importers.sigma.translate import Translation, translate

RULES = "etc/rules/0990-sigma_rules.xml"
IDS = "etc/rules/0990-sigma_ids.json"
"""Below the installation folder. Both are replicated; the engine reads ``*.xml`` only."""
_FILE_MODE = 0o660
_COMMENT = "Made by secmon import sigma, which replaces this file. Exceptions belong into files of your own."
_RULE = re.compile(rb'<rule id="(\d+)".*?<description>(?:Sigma: )?(.*?)</description>', re.DOTALL)
Check = Callable[[Changed], Finding | None]
"""The error of the ruleset that a change of files would cause (``cluster.node.RulesetValidation``)."""
Progress = Callable[[int, int], None]
"""Called with the number of files read, and of all files."""


class ImportRefused(Exception):
    """Nothing was changed; the text says why."""


def import_sigma(
    path: Path,
    paths: Paths,
    check: Check,
    *,
    values: Path | None = None,
    dry_run: bool = False,
    progress: Progress | None = None,
) -> SigmaReport:
    """Translate the rules of a file or of a folder, and put them in the place of those imported before.

    ``values``: a file with the values of placeholders.

    Raises ImportRefused when the ruleset would not load with them, or there is no rule at all; then the previous ones
    remain in force. Raises OSError.
    """
    before = _content(paths.root / IDS)
    try:
        ids = IdMap.read(before)
        known = len(ids)
        files = find_files(path)
        known_values = {} if values is None else read_values(values)
        made = translate(_documents(path, files, progress), ids, known_values)
    except IdMapError as error:
        raise ImportRefused(str(error)) from None
    except BadFile as error:
        raise ImportRefused(f"{values}: {error}") from None
    if not made.rules and not any(line.result == "counted" for line in made.lines):
        raise ImportRefused(f"none of {len(files)} files has a rule that can be imported" if files else "no files")
    rules = file_of(made.rules, _COMMENT)
    previous = _content(paths.root / RULES)
    lines = (*made.lines, *_removed(previous or b"", made, ids))
    fault = check({RULES: rules})
    if fault is not None:
        raise ImportRefused(f"the ruleset would not load with these rules: {fault.text}")
    written = rules != previous and not dry_run
    if len(ids) != known and not dry_run:
        write_file(paths.root / IDS, ids.content(), _FILE_MODE)  # first: no id may ever be given twice
    if written:
        write_file(paths.root / RULES, rules, _FILE_MODE)
    return SigmaReport(lines, written=written)


def _documents(path: Path, files: list[Path], progress: Progress | None) -> Iterator[Document | tuple[str, BadFile]]:
    for at, file in enumerate(files):
        if progress is not None:
            progress(at, len(files))
        yield from read_documents(file, str(file.relative_to(path)) if file != path else file.name)
    if progress is not None:
        progress(len(files), len(files))


def _content(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


def _removed(before: bytes, made: Translation, ids: IdMap) -> list[SigmaLine]:
    """Rules of the file before that are no longer made."""
    now, keys = {rule.id for rule in made.rules}, ids.rules()
    return [
        SigmaLine("removed", RULES, title.decode("utf-8", "replace"), keys[int(number)], int(number))
        for number, title in _RULE.findall(before)
        if int(number) in keys and int(number) not in now
    ]


__all__ = ["ImportRefused", "SigmaLine", "SigmaReport", "import_sigma"]
