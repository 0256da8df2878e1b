"""Values for placeholders: ``CommandLine|expand: '%administrators%'`` becomes a list of what the operator gives."""

import re
from collections.abc import Mapping, Sequence
from itertools import product
from math import prod
from pathlib import Path
from typing import Any

from secmon.importers.sigma.source import BadFile, Document, read_documents

Values = Mapping[str, Sequence[str]]
_PLACEHOLDER = re.compile(r"(?:(?<!\\)|(?<=\\\\))%(\w+)%")  # a single backslash escapes the sign
MAX_VALUES = 1000
"""Values that one text may become."""


def read_values(file: Path) -> Values:
    """A YAML mapping of names to a value or a list of values. Raises BadFile."""
    (found, *more) = read_documents(file, file.name)
    if not isinstance(found, Document):
        raise found[1]
    made = {name: value if isinstance(value, list) else [value] for name, value in found.content.items()}
    if more or any(isinstance(one, dict | list) or one is None for some in made.values() for one in some):
        raise BadFile("it is not a mapping of names to values or lists of values")
    return {name: [str(one) for one in some] for name, some in made.items()}


def expanded(document: Document, values: Values) -> Document:
    """The document with values in the place of the placeholders that ``values`` has."""
    return Document(document.place, _expanded(document.content, values)) if values else document


def _expanded(content: Any, values: Values) -> Any:
    if isinstance(content, list):
        return [_expanded(one, values) for one in content]
    if not isinstance(content, dict):
        return content
    made = {}
    for name, value in content.items():
        modifiers = name.split("|")[1:] if isinstance(name, str) else []
        if "expand" in modifiers and (known := _known(value, values, several="all" not in modifiers)) is not None:
            made["|".join(part for part in name.split("|") if part != "expand")] = known
        else:
            made[name] = _expanded(value, values)
    return made


def _known(value: Any, values: Values, *, several: bool) -> list[Any] | None:
    """All texts that a value stands for; None if a placeholder has no values, or more than a modifier allows."""
    made: list[Any] = []
    for one in value if isinstance(value, list) else [value]:
        texts = _texts(one, values) if isinstance(one, str) else [one]
        if not texts or (len(texts) > 1 and not several):
            return None
        made += texts
    return made


def _texts(text: str, values: Values) -> list[str]:
    parts = _PLACEHOLDER.split(text)  # a text, a name, a text, ...
    choices = [values.get(part, ()) if at % 2 else (part,) for at, part in enumerate(parts)]
    return ["".join(one) for one in product(*choices)] if prod(map(len, choices)) <= MAX_VALUES else []
