"""``q`` text to tree: a recursive-descent parser over three regular expressions (conventions.md 5.1).

No expression can backtrack: each is a run of one character class, or runs that start with different characters, so
parsing takes time linear in the text.
"""

import re
from typing import Literal, NoReturn

from secmon.common.errors import SecmonError
from secmon.common.query.syntax import EXCERPT, MAX_CLAUSES, MAX_DEPTH, And, Clause, Node, Op, Or, check_text

_FIELD = re.compile(r"[\w.]+")
_OPERATOR = re.compile(r"[=!<>~]{1,2}")
_PLAIN = r"\w \-.:?\\/'\"=@%<>{}"

# A value of the list engine: plain characters, brackets, and balanced parentheses around such.
_LIST_VALUE = re.compile(rf"(?:[{_PLAIN}\[\]]++|\([{_PLAIN}\[\]]*+\))++")
# The SQL engine adds the dollar sign, and commas within brackets.
_SQL_VALUE = re.compile(rf"(?:[{_PLAIN}$]++|\[[{_PLAIN}$,]*+\]|[\[\]]|\([{_PLAIN}$\[\]]*+\))++")

_OPERATORS = {op.value: op for op in Op}


def parse(text: str, engine: Literal["list", "sql"] = "sql") -> Node:
    """The tree of ``text``.

    Raises 1407 (not well formed) and 1409 (no such operator), each quoting the text from the fault on. The
    reference's other codes for malformed text (2003, and 500 for operators in the list engine) are defects there.
    """
    return _Parser(check_text("q", text), engine).parse()


class _Parser:
    def __init__(self, text: str, engine: Literal["list", "sql"]) -> None:
        self._text = text
        self._value = _SQL_VALUE if engine == "sql" else _LIST_VALUE
        self._position = 0
        self._clauses = 0

    def parse(self) -> Node:
        node = self._alternatives(depth=0)
        if self._position != len(self._text):
            self._fail(1407, self._position)
        return node

    def _alternatives(self, depth: int) -> Node:
        terms = [self._conjunction(depth)]
        while self._take(","):
            terms.append(self._conjunction(depth))
        return terms[0] if len(terms) == 1 else Or(tuple(terms))

    def _conjunction(self, depth: int) -> Node:
        terms = [self._term(depth)]
        while self._take(";"):
            terms.append(self._term(depth))
        return terms[0] if len(terms) == 1 else And(tuple(terms))

    def _term(self, depth: int) -> Node:
        opening = self._position
        if not self._take("("):
            return self._clause()
        if depth == MAX_DEPTH:
            raise SecmonError(1407, f"more than {MAX_DEPTH} levels of parentheses")
        node = self._alternatives(depth + 1)
        if not self._take(")"):
            self._fail(1407, opening if self._position == len(self._text) else self._position)
        return node

    def _clause(self) -> Clause:
        start = self._position
        self._clauses += 1
        if self._clauses > MAX_CLAUSES:
            raise SecmonError(1407, f"more than {MAX_CLAUSES} clauses")
        field = self._match(_FIELD)
        run = self._match(_OPERATOR) if field else None
        if not field or not run:
            self._fail(1407, start)
        op = _OPERATORS.get(run)
        if op is None:
            self._fail(1409, start)
        value = self._match(self._value)
        if not value:
            self._fail(1407, start)
        return Clause(field, op, value)

    def _take(self, mark: str) -> bool:
        found = self._text.startswith(mark, self._position)
        self._position += found
        return found

    def _match(self, pattern: re.Pattern[str]) -> str | None:
        found = pattern.match(self._text, self._position)
        if found is None:
            return None
        self._position = found.end()
        return found.group()

    def _fail(self, code: int, position: int) -> NoReturn:
        rest = self._text[position : position + EXCERPT]
        raise SecmonError(code, f"at {rest!r}" if rest else f"text ends after {self._text[-EXCERPT:]!r}")
