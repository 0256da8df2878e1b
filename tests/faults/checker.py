"""Whether a history keeps what docs/high-availability.md promises. Pure: it knows neither nodes nor faults."""

from collections import defaultdict
from collections.abc import Iterator, Sequence

from tests.faults.history import History, Outcome, Position, Read, Refusal, Write

FILES = frozenset({"group", "rules"})
"""Kinds of objects that are files: a master's disk has them first, and a change that was not acknowledged may pass."""


def violations(history: History, *, lease_seconds: float) -> list[str]:
    """Every broken promise in a sentence.

    In calm times a read sees what was acknowledged before it. In others a node may not know a change for as long as it
    honours tokens without word from the master: ``lease_seconds``.
    """
    return [
        *history.wrong,
        *_wrong_reads(history, lease_seconds),
        *_wrong_refusals(history, lease_seconds),
        *_backwards(history),
        *_ids_given_twice(history),
        *_revisions_that_went_back(history.positions),
    ]


def _wrong_reads(history: History, lease_seconds: float) -> Iterator[str]:
    """A read of a value that is not the last one which must be seen, nor a later one."""
    for read in history.reads:
        writes = history.writes.get(read.key, [])
        if not any(_fits(read, write) for write in _visible(read, writes, history, lease_seconds)):
            yield f"{_shown(read)} Changes of it: {'; '.join(_written(write) for write in writes) or 'none'}."


def _wrong_refusals(history: History, lease_seconds: float) -> Iterator[str]:
    """Only a node that need not know yet what was acknowledged of an object may refuse a change of it."""
    for refusal in history.refusals:
        known = [write for write in history.writes.get(refusal.key, []) if write.ended <= refusal.begun]
        done = [write for write in known if write.outcome is Outcome.DONE]
        if all(_must_be_seen(refusal, write, history, lease_seconds) for write in done):
            yield f"Refused: {refusal.text}"


def _visible(read: Read, writes: Sequence[Write], history: History, lease_seconds: float) -> Iterator[Write | None]:
    """The changes whose result ``read`` may have seen; None: the state before all of them."""
    first = -1
    for number, write in enumerate(writes):
        if write.outcome is Outcome.DONE and _must_be_seen(read, write, history, lease_seconds):
            first = number
    if first < 0:
        yield None
    for write in writes[max(first, 0) :]:
        if write.outcome is not Outcome.NOT_DONE and write.begun < read.ended:
            yield write


def _must_be_seen(read: Read | Refusal, write: Write, history: History, lease_seconds: float) -> bool:
    if read.begun < write.ended:
        return False
    late = read.begun - write.ended
    final = isinstance(read, Read) and read.final
    return final or late > lease_seconds or history.calm.covers(write.ended, read.ended)


def _fits(read: Read, write: Write | None) -> bool:
    value = write.value if write is not None else None
    return (value == read.value) is not read.other


def _backwards(history: History) -> Iterator[str]:
    """What a node has shown, it does not take back."""
    shown: dict[tuple[str, str], list[tuple[float, int]]] = defaultdict(list)
    for read in sorted(history.reads, key=lambda read: read.begun):
        writes = history.writes.get(read.key, [])
        place = _place(read, writes)
        if place is None:
            continue
        earlier = shown[read.node, read.key]
        newest = max((number for ended, number in earlier if ended <= read.begun), default=-1)
        if place < newest:
            yield f"{_shown(read)} The node had shown {writes[newest].value!r} before."
        earlier.append((read.ended, place))


def _place(read: Read, writes: Sequence[Write]) -> int | None:
    """The number of the newest change that explains ``read``, -1: before all of them; None: nothing follows from it."""
    if read.other:
        return None
    for number, write in reversed([*enumerate(writes)]):
        if write.outcome is not Outcome.NOT_DONE and write.begun < read.ended and write.value == read.value:
            passing = write.outcome is Outcome.UNKNOWN and read.key.partition(" ")[0] in FILES
            return None if passing else number
    return -1


def _ids_given_twice(history: History) -> Iterator[str]:
    owners: dict[tuple[str, str], set[str]] = defaultdict(set)
    for key, writes in history.writes.items():
        for write in writes:
            if write.number:
                owners[key.partition(" ")[0], write.number].add(key)
    for (kind, number), keys in owners.items():
        if len(keys) > 1:
            yield f"The id {number} was given to more than one {kind}: {', '.join(sorted(keys))}."


def _revisions_that_went_back(positions: Sequence[Position]) -> Iterator[str]:
    highest: dict[tuple[str, str], int] = {}
    for position in positions:
        at = position.node, position.store
        if position.revision < highest.get(at, 0):
            yield f"{position.node}: the {position.store} went back from revision {highest[at]} to {position.revision}."
        highest[at] = max(highest.get(at, 0), position.revision)


def _shown(read: Read) -> str:
    said = f"{'other than ' if read.other else ''}{read.value!r}"
    return f"{read.key} read at {read.node} from {read.begun:.2f} to {read.ended:.2f}: {said}."


def _written(write: Write) -> str:
    return f"{write.value!r} from {write.begun:.2f} to {write.ended:.2f} {write.outcome.name}"
