"""What is wrong with a configuration file: collected, so that the operator sees all of it at once."""

from dataclasses import dataclass, field

from secmon.common.errors import judged
from secmon.config.xml import Element


@dataclass(frozen=True, slots=True)
class Problem:
    """One finding; ``str()`` is the sentence for the operator. ``line`` counts from 1 and is None when not known.

    ``value`` may be a ``Fault``.
    """

    file: str
    line: int | None
    section: str
    key: str
    value: str
    allowed: str

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else self.file
        name = ".".join(part for part in (self.section, self.key) if part)
        return f"{place}: {name}: {judged(self.value, self.allowed)}"


@dataclass(slots=True)
class Report:
    """Errors and warnings of one file."""

    file: str
    problems: list[Problem] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def error(self, section: str, key: str, value: str, allowed: str, at: Element | None = None) -> None:
        """Note an error at the line of ``at``."""
        self.problems.append(Problem(self.file, at.line if at else None, section, key, value, allowed))

    def warn(self, section: str, text: str, at: Element | None = None) -> None:
        """Note something that works but should be changed."""
        place = f"{self.file}:{at.line}" if at else self.file
        self.warnings.append(f"{place}: {section}: {text}")
