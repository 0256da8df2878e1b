"""Ids of imported rules: one for each key, that it keeps, in a range of their own."""

import msgspec

FIRST, LAST = 300_000, 399_999
"""The range (docs/write-rules.md, Ids)."""

HELPER = "helper "
"""Begins the keys of rules that no rule of Sigma stands for by itself."""


class IdMapError(Exception):
    """The file of ids cannot be used, or no id is left; the text says why."""


class _File(msgspec.Struct, forbid_unknown_fields=True):
    version: int
    ids: dict[str, int]


class IdMap:
    """Ids by key: the id of a Sigma rule, or the name of what its import needs besides. An id is never given again."""

    def __init__(self, ids: dict[str, int] | None = None) -> None:
        self._ids = dict(ids or {})
        self._next = max(self._ids.values(), default=FIRST - 1) + 1

    @classmethod
    def read(cls, content: bytes | None) -> "IdMap":
        """None: there is no file yet. Raises IdMapError."""
        if content is None:
            return cls()
        try:
            found = msgspec.json.decode(content, type=_File)
        except msgspec.MsgspecError as error:
            raise IdMapError(f"the file of ids is damaged: {error}") from None
        numbers = found.ids.values()
        if found.version != 1 or len(set(numbers)) != len(numbers) or any(not FIRST <= one <= LAST for one in numbers):
            raise IdMapError("the file of ids is damaged: it has ids twice, or outside of the range")
        return cls(found.ids)

    def rules(self) -> dict[int, str]:
        """The keys of rules of Sigma, by our id."""
        return {number: key for key, number in self._ids.items() if not key.startswith(HELPER)}

    def __len__(self) -> int:
        return len(self._ids)

    def __getitem__(self, key: str) -> int:
        """The id of a key, a new one if it has none. Raises IdMapError."""
        found = self._ids.get(key)
        if found is None:
            if self._next > LAST:
                raise IdMapError(f"no id is left between {FIRST} and {LAST}")
            found = self._ids[key] = self._next
            self._next += 1
        return found

    def content(self) -> bytes:
        """The file, in the order of ids."""
        ordered = dict(sorted(self._ids.items(), key=lambda one: one[1]))
        return msgspec.json.format(msgspec.json.encode(_File(1, ordered)), indent=1) + b"\n"
