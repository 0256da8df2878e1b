"""The ``sort`` parameter: ``[+|-]field[,field...]``, one sign for all fields (conventions.md 5.4)."""

from dataclasses import dataclass

from secmon.common.errors import SecmonError
from secmon.common.query.fields import Fields
from secmon.common.query.limits import EXCERPT


@dataclass(frozen=True, slots=True)
class Sort:
    """Order by ``fields``, first one first. No fields (a bare sign): the order of the source."""

    fields: tuple[str, ...]
    descending: bool = False

    @classmethod
    def parse(cls, text: str, fields: Fields) -> "Sort":
        """Raises 1403 for names that the collection does not sort by, and for a bare sign in the SQL engine."""
        names_text = text[1:] if text[:1] in ("+", "-") else text
        if not names_text and text and fields.engine == "list":
            return cls((), text == "-")
        names = tuple(dict.fromkeys(names_text.split(",")))
        allowed = fields.sortable
        wrong = [name for name in names if not name or (allowed is not None and name not in allowed)]
        if wrong:
            raise unsortable(wrong, allowed or ())
        return cls(names, text.startswith("-"))


def unsortable(wrong: list[str], allowed: tuple[str, ...]) -> SecmonError:
    """The 1403 error that names the faults and the choice."""
    return SecmonError(1403, f"{','.join(wrong)[:EXCERPT]!r}; sortable: {', '.join(allowed) or 'none'}")
