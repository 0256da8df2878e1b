"""How many connections a port may have, counted from ``accept`` on: before TLS, and before anything is read.

Two bounds apply: connections of strangers, and all connections. The difference is reserved for known addresses:
those that have authenticated, and those that the owner of the port names. When there is no room, the address with the
most connections loses its oldest one, so that a flood from few addresses does not keep others out. Of one address,
silent connections and those that have begun to talk are weighed the same way, so that a flood of silent ones does not
keep out who talks at once.
"""

import ipaddress
import logging
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from itertools import chain

from msgspec import Struct

from secmon.common.clock import Clock
from secmon.common.counters import Counters

MAX_KNOWN = 10_000
"""Addresses remembered as authenticated; the one that authenticated least recently is dropped first."""
LOG_SECONDS = 10.0
"""At least so long between two log lines of a port."""
_MAX_NAMED = 1000
_IPV6_GROUP_BITS = 64


class AcceptLimits(Struct, frozen=True, kw_only=True):
    """``total`` connections, of which ``reserved`` are for known addresses only.

    ``per_address``: connections of one address that have not authenticated; ``per_known_address``: those that have, 0
    means no limit. All addresses of an IPv6 /64 count as one: a host can use them all. ``grace_seconds``: for so long a
    connection is not closed to make room for another one of its address, which is refused.
    """

    total: int
    reserved: int
    per_address: int
    per_known_address: int = 0
    grace_seconds: float = 0.0


class Slot:
    """The place of one connection."""

    __slots__ = ("begun", "busy", "close", "group", "since")

    def __init__(self, group: str, close: Callable[[], None], since: float) -> None:
        self.group = group
        self.since = since
        """Monotonic seconds."""
        self.close = close
        """Ends the connection; called when its place is given to another."""
        self.begun = False
        """The peer has said something that makes sense; see :meth:`ConnectionLimiter.begun`."""
        self.busy = False
        """In use: closed only when a stranger's address has more than its share."""


class ConnectionLimiter:
    """Counts the connections of one port. Use it on the event loop only."""

    def __init__(
        self,
        name: str,
        limits: AcceptLimits,
        *,
        log: logging.Logger,
        clock: Clock,
        counters: Counters,
        is_known: Callable[[str], bool] = lambda _address: False,
    ) -> None:
        """``name`` is for the log, and begins the names of the counters. ``is_known`` names addresses to keep room
        for, besides those that have authenticated."""
        self.limits = limits
        self._name, self._log, self._clock, self._counters, self._is_known = name, log, clock, counters, is_known
        self._strangers, self._known, self._proved = _Pool(), _Pool(), _Pool()
        self._authenticated: OrderedDict[str, None] = OrderedDict()
        self._unreported: Counter[str] = Counter()
        self._next_line = float("-inf")

    def __len__(self) -> int:
        return self._strangers.size + self._known.size + self._proved.size

    @property
    def strangers(self) -> int:
        """Connections that have not authenticated, from addresses that are not known."""
        return self._strangers.size

    def take(self, address: str, close: Callable[[], None]) -> Slot | None:
        """A place for a connection from ``address``; None when there is none. Another may lose its place for it."""
        group = address_group(address)
        pool = self._known if self.knows(address) else self._strangers
        if self._is_full(pool, group):
            victim = self._victim(pool, group)
            if victim is None:
                self._note("refused", group)
                return None
            self._evict(victim)
        slot = Slot(group, close, self._clock.monotonic())
        pool.add(slot)
        self._counters.set(f"{self._name}.connections.open", len(self))
        return slot

    def knows(self, address: str) -> bool:
        """Whether ``address`` has authenticated, or is one to keep room for."""
        return address_group(address) in self._authenticated or self._is_known(address)

    def release(self, slot: Slot) -> None:
        """The connection has ended; also for a slot that was released before."""
        for pool in (self._strangers, self._known, self._proved):
            pool.discard(slot)
        slot.close = _nothing  # it refers to the connection, which refers to the slot: both are freed at once
        self._say_if_due()
        self._counters.set(f"{self._name}.connections.open", len(self))

    def begun(self, slot: Slot) -> None:
        """The peer has begun to talk: its place is not given away while its address has more silent connections."""
        pool = next((pool for pool in (self._strangers, self._known, self._proved) if pool.discard(slot)), None)
        slot.begun = True
        if pool is not None:
            pool.add(slot)

    def authenticated(self, slot: Slot) -> None:
        """The peer has authenticated: its address is known from now on."""
        self._authenticated[slot.group] = None
        self._authenticated.move_to_end(slot.group)
        if len(self._authenticated) > MAX_KNOWN:
            self._authenticated.popitem(last=False)
        if self._strangers.discard(slot) or self._known.discard(slot):
            self._proved.add(slot)
            if 0 < self.limits.per_known_address < self._proved.count(slot.group):
                self._evict(self._proved.oldest(slot.group))

    def _evict(self, slot: Slot) -> None:
        """Close ``slot`` in favour of another one."""
        self._note("evicted", slot.group)
        close = slot.close
        self.release(slot)
        close()

    def _is_full(self, pool: "_Pool", group: str) -> bool:
        limits = self.limits
        return (
            len(self) >= limits.total
            or pool.count(group) >= limits.per_address
            or (pool is self._strangers and pool.size >= limits.total - limits.reserved)
        )

    def _victim(self, pool: "_Pool", group: str) -> Slot | None:
        """Whose place is given to a newcomer of ``group``; None: the newcomer is refused."""
        if pool.count(group) >= self.limits.per_address:
            return self._past_grace(pool.oldest_idle(group))
        if pool is self._known and (stranger := self._strangers.of_the_largest()) is not None:
            return stranger
        own = pool.count(group)
        if pool.largest > own + 1:
            return pool.of_the_largest()
        if own:
            return self._past_grace(pool.oldest_idle(group))
        return pool.oldest_idle() or self._proved.oldest_idle()

    def _past_grace(self, slot: Slot | None) -> Slot | None:
        """``slot``, when its grace is over."""
        if slot is None or self._clock.monotonic() - slot.since < self.limits.grace_seconds:
            return None
        return slot

    def _note(self, what: str, group: str) -> None:
        self._counters.add(f"{self._name}.connections.{what}")
        if group in self._unreported or len(self._unreported) < _MAX_NAMED:
            self._unreported[group] += 1
        self._say_if_due()

    def _say_if_due(self) -> None:
        """Also called when a connection begins or ends, so that the end of a flood is logged too."""
        now = self._clock.monotonic()
        if not self._unreported or now < self._next_line:
            return
        self._next_line = now + LOG_SECONDS
        most = ", ".join(f"{name} ({count})" for name, count in self._unreported.most_common(5))
        self._log.warning(
            "too many connections (%s): %d refused or closed to make room, most from %s",
            self._name, sum(self._unreported.values()), most,
        )  # fmt: skip
        self._unreported.clear()


class _Slots:
    """In the order they were taken or began: silent ones, and those that have begun to talk."""

    def __init__(self) -> None:
        self._silent: dict[Slot, None] = {}
        self._begun: dict[Slot, None] = {}

    def __len__(self) -> int:
        return len(self._silent) + len(self._begun)

    def __contains__(self, slot: Slot) -> bool:
        return slot in self._silent or slot in self._begun

    def add(self, slot: Slot) -> None:
        (self._begun if slot.begun else self._silent)[slot] = None

    def remove(self, slot: Slot) -> None:
        del (self._begun if slot.begun else self._silent)[slot]

    def oldest(self) -> Slot:
        """Of the kind that has more slots. There must be one."""
        return next(self._in_turn())

    def oldest_idle(self) -> Slot | None:
        """Of the kind that has more slots; of the other when all of them are busy."""
        return next((slot for slot in self._in_turn() if not slot.busy), None)

    def _in_turn(self) -> Iterator[Slot]:
        more_talk = len(self._begun) > len(self._silent)
        return chain(self._begun, self._silent) if more_talk else chain(self._silent, self._begun)


class _Pool:
    """Slots as a whole and by group."""

    def __init__(self) -> None:
        self._all = _Slots()
        self._groups: dict[str, _Slots] = {}

    @property
    def size(self) -> int:
        return len(self._all)

    @property
    def largest(self) -> int:
        """Slots of the group with the most."""
        return max(map(len, self._groups.values()), default=0)

    def count(self, group: str) -> int:
        return len(self._groups.get(group, ()))

    def add(self, slot: Slot) -> None:
        self._all.add(slot)
        self._groups.setdefault(slot.group, _Slots()).add(slot)

    def discard(self, slot: Slot) -> bool:
        """Whether it was there."""
        if slot not in self._all:
            return False
        self._all.remove(slot)
        slots = self._groups[slot.group]
        slots.remove(slot)
        if not slots:
            del self._groups[slot.group]
        return True

    def oldest(self, group: str) -> Slot:
        return self._groups[group].oldest()

    def oldest_idle(self, group: str | None = None) -> Slot | None:
        return (self._all if group is None else self._groups[group]).oldest_idle()

    def of_the_largest(self) -> Slot | None:
        """The oldest of the largest group, an idle one if there is any."""
        slots = max(self._groups.values(), key=len, default=None)
        return slots.oldest_idle() or slots.oldest() if slots else None


def _nothing() -> None:
    """Closes a connection that has ended."""


def address_group(address: str) -> str:
    """What counts as one address: an IPv4 address, the /64 of an IPv6 address, other text as it is."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv6Address):
        if parsed.ipv4_mapped is not None:
            return str(parsed.ipv4_mapped)
        return str(ipaddress.ip_network((parsed, _IPV6_GROUP_BITS), strict=False))
    return str(parsed)
