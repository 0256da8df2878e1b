"""How severe a vulnerability is: scores of CVSS vectors, and words (agent-data.md 9.5, 9.7)."""

from collections.abc import Iterable, Mapping
from functools import lru_cache

from cvss import CVSS2, CVSS3, CVSS4
from cvss.exceptions import CVSSError

from secmon.knowledge.vulnerabilities.records import Rating

_MAX_VECTOR = 400
_CLASSES = {"2": CVSS2, "3": CVSS3, "4": CVSS4}
_WORDS: Mapping[str, str] = {
    "none": "None",
    "low": "Low",
    "negligible": "Low",
    "unimportant": "Low",
    "minor": "Low",
    "medium": "Medium",
    "moderate": "Medium",
    "high": "High",
    "important": "High",
    "critical": "Critical",
}


def rating(vectors: Mapping[str, str], words: Iterable[str] = ()) -> Rating:
    """``vectors``: texts by version of CVSS (``2``, ``3``, ``4``); those that are none are left out.

    The severity is that of the newest vector, else that of the first of ``words`` that is known.
    """
    scores = {version: score for version, text in vectors.items() if (score := base_score(version, text)) is not None}
    return Rating(
        severity=_severity(scores, words),
        cvss2=scores.get("2", 0.0),
        cvss3=scores.get("3", 0.0),
        cvss4=scores.get("4", 0.0),
        vectors={version: vectors[version] for version in sorted(scores)},
    )


@lru_cache(maxsize=20_000)
def base_score(version: str, vector: str) -> float | None:
    """The base score of a vector; None for a text that is no vector of this version."""
    if len(vector) > _MAX_VECTOR:
        return None
    try:
        return float(_CLASSES[version](vector.strip()).base_score)
    except (CVSSError, ArithmeticError, LookupError, ValueError):
        return None


def _severity(scores: Mapping[str, float], words: Iterable[str]) -> str:
    if scores:
        version = max(scores)
        return _of_score(scores[version], old=version == "2")
    return next((found for word in words if (found := _WORDS.get(word.strip().lower())) is not None), "Untriaged")


def _of_score(score: float, *, old: bool) -> str:
    if score >= 9.0 and not old:
        return "Critical"
    if score >= 7.0:
        return "High"
    if score >= 4.0:
        return "Medium"
    return "Low" if score > 0.0 or old else "None"
