"""Reading Sigma rules: files, YAML documents, and what pySigma makes of them. A file that is bad costs itself only."""

import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pcre2  # type: ignore[import-untyped]  # the package has no stubs
import yaml
from sigma.correlations import SigmaCorrelationRule
from sigma.exceptions import SigmaError
from sigma.policy import SigmaPolicy
from sigma.policy.regex_engine import RegexEngine, RegexPattern
from sigma.rule import SigmaRule

MAX_FILE = 1 << 20
"""Bytes."""
MAX_NODES, MAX_DEPTH, MAX_ALIASES = 20_000, 30, 20
"""Of one document. Aliases are bounded because each may repeat what contains others."""
MAX_CONDITION = 10_000
_OTHER_NAME = re.compile(r"\|utf16le(?=\||$)")
_SUFFIXES = (".yml", ".yaml")


PARSER_ERRORS = (SigmaError, ValueError, TypeError, AttributeError, KeyError, IndexError, RecursionError)
"""What pySigma raises: its own errors, and others for values of types that it does not expect."""


class _Pcre2(RegexEngine):
    """A regular expression is valid if the library that our engine uses says so."""

    def compile(self, pattern: str, flags: int = 0) -> RegexPattern:
        try:
            return cast(RegexPattern, pcre2.compile(pattern))
        except pcre2.LibraryError as error:
            raise pcre2.PatternError(str(error)) from None

    @property
    def error(self) -> type[Exception]:
        return cast(type[Exception], pcre2.PatternError)


_POLICY = SigmaPolicy(regex_engine=_Pcre2())


class BadFile(Exception):
    """A file, or a document of one, that is no Sigma rule; the text says why."""


@dataclass(frozen=True, slots=True)
class Document:
    """One YAML document. ``place``: the file below the folder that was given, with the number of a later document."""

    place: str
    content: dict[str, Any]

    @property
    def title(self) -> str:
        return str(self.content.get("title", ""))

    def parse(self) -> SigmaRule | SigmaCorrelationRule:
        """Raises BadFile."""
        if "filter" in self.content:
            raise BadFile("a filter of other rules is not imported")
        if "action" in self.content:
            raise BadFile("documents with an action are not imported")
        kind = SigmaCorrelationRule if "correlation" in self.content else SigmaRule
        self._check()
        try:
            return kind.from_dict(_with_known_names(self.content), policy=_POLICY)
        except PARSER_ERRORS as error:
            raise BadFile(reason(error)) from None

    def _check(self) -> None:
        detection = self.content.get("detection")
        conditions = detection.get("condition") if isinstance(detection, dict) else None
        for one in conditions if isinstance(conditions, list) else [conditions]:
            if isinstance(one, str) and len(one) > MAX_CONDITION:
                raise BadFile(f"its condition is longer than {MAX_CONDITION} characters")


def _with_known_names(content: Any) -> Any:
    """The same with names of modifiers that pySigma knows."""
    if isinstance(content, dict):
        return {_OTHER_NAME.sub("|wide", name): _with_known_names(value) for name, value in content.items()}
    return [_with_known_names(one) for one in content] if isinstance(content, list) else content


def reason(error: Exception) -> str:
    """What pySigma has refused, or could not work with."""
    return one_line(error) if isinstance(error, SigmaError) else f"it is not a Sigma rule ({one_line(error)})"


def one_line(error: BaseException) -> str:
    """The first line of an error, shortened."""
    text = " ".join(str(error).split())
    return text if len(text) <= 300 else f"{text[:300]}..."


def find_files(path: Path) -> list[Path]:
    """``path`` itself, or all YAML files below it, without those in hidden folders, in order. Raises OSError."""
    if not path.is_dir():
        return [path]
    found = []
    for folder, folders, names in os.walk(path, onerror=_raise):
        folders[:] = sorted(one for one in folders if not one.startswith("."))
        found += [Path(folder, name) for name in sorted(names) if name.endswith(_SUFFIXES) and not name.startswith(".")]
    return found


def _raise(error: OSError) -> None:
    raise error


def read_documents(file: Path, name: str) -> Iterator[Document | tuple[str, BadFile]]:
    """The documents of a file; in the place of one that cannot be read, its place and why."""
    try:
        text = _read(file)
        found = list(_load(text))
    except BadFile as error:
        yield name, error
        return
    if not found:
        yield name, BadFile("it is not a Sigma rule: it is empty")
    for at, content in enumerate(found, 1):
        place = name if at == 1 else f"{name}#{at}"
        if content is None and len(found) > 1:  # after a last separator
            continue
        if isinstance(content, dict) and all(isinstance(key, str) for key in content):
            yield Document(place, content)
        else:
            yield place, BadFile("it is not a Sigma rule: the document is not a mapping with names")


def _read(file: Path) -> str:
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        with open(descriptor, "rb") as opened:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise BadFile("it is not a regular file")
            data = opened.read(MAX_FILE + 1)
    except OSError as error:
        raise BadFile(error.strerror or str(error)) from None
    if len(data) > MAX_FILE:
        raise BadFile(f"it is larger than {MAX_FILE >> 20} MB")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise BadFile("it is not UTF-8 text") from None


def _load(text: str) -> Iterator[Any]:
    try:
        _bound(text)
        yield from yaml.load_all(text, _Loader)
    except yaml.YAMLError as error:
        raise BadFile(f"it is not YAML: {one_line(error)}") from None
    except (ValueError, OverflowError, RecursionError) as error:  # such as a date that does not exist
        raise BadFile(f"it has a value that cannot be read: {one_line(error)}") from None


class _Loader(yaml.CSafeLoader):
    """Times stay texts: pySigma takes them as they are written, and a rule may look for one."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.CSafeLoader.yaml_implicit_resolvers.items()
}


def _bound(text: str) -> None:
    """Refuse documents that would grow. Raises BadFile, YAMLError."""
    nodes = depth = aliases = 0
    for event in yaml.parse(text, yaml.CSafeLoader):
        if isinstance(event, yaml.DocumentStartEvent):
            nodes = depth = aliases = 0
        nodes += 1
        aliases += isinstance(event, yaml.AliasEvent)
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if nodes > MAX_NODES or depth > MAX_DEPTH or aliases > MAX_ALIASES:
            bounds = f"{MAX_NODES} values, {MAX_DEPTH} levels or {MAX_ALIASES} aliases"
            raise BadFile(f"a document has more than {bounds}")
