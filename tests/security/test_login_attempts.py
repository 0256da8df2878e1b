"""Failed logins, against a clock that the test moves (conventions.md 9.1)."""

from secmon.common.errors import SecmonError
from secmon.security.login_attempts import FailedLogins
from tests.manual_clock import ManualClock


def _blocked(logins: FailedLogins, address: str = "a") -> bool:
    try:
        logins.check(address)
    except SecmonError as error:
        return error.code == 6000
    return False


def test_block_lasts_from_the_first_failure() -> None:
    clock = ManualClock()
    logins = FailedLogins(3, 300, clock)
    logins.failed("a")
    clock.advance(200)
    logins.failed("a")
    assert not _blocked(logins)
    logins.failed("a")
    assert _blocked(logins)
    assert not _blocked(logins, "b")
    clock.advance(99.9)
    assert _blocked(logins)
    clock.advance(0.1)
    assert not _blocked(logins)
    logins.failed("a")  # a new series
    assert not _blocked(logins)


def test_failures_before_the_block_time_are_forgotten() -> None:
    clock = ManualClock()
    logins = FailedLogins(2, 10, clock)
    logins.failed("a")
    clock.advance(10)
    logins.failed("a")
    assert not _blocked(logins)


def test_limit_of_one_blocks_at_once() -> None:
    logins = FailedLogins(1, 10, ManualClock())
    logins.failed("a")
    assert _blocked(logins)


def test_addresses_are_bounded() -> None:
    clock = ManualClock()
    logins = FailedLogins(2, 300, clock, capacity=100)
    for number in range(1000):
        logins.failed(f"10.0.{number // 256}.{number % 256}")
    assert len(logins) == 100
    clock.advance(300)
    logins.check("other")
    assert len(logins) == 0


def test_failures_of_other_nodes_are_learned() -> None:
    clock = ManualClock()
    master, here = FailedLogins(3, 300, clock), FailedLogins(3, 300, clock)
    master.failed("a", 2)
    clock.advance(100)
    here.failed("a")
    master.failed("a")
    assert master.series("a") == (3, 100.0)
    assert not _blocked(here)
    here.learn("a", *master.series("a"))
    assert _blocked(here)
    here.learn("b", 50, 300)  # over already
    assert not _blocked(here, "b")
    clock.advance(300)
    assert not _blocked(here)
    assert master.series("a") == (0, 0.0)


def test_addresses_of_one_ipv6_network_share_a_block() -> None:
    logins = FailedLogins(2, 10, ManualClock())
    for host in ("1", "2"):
        logins.failed(f"2001:db8::{host}")
    assert _blocked(logins, "2001:db8::3")
    assert logins.series("2001:db8::ffff") == (2, 0.0)
    assert not _blocked(logins, "2001:db8:0:1::1")
    logins.failed("::ffff:192.0.2.1")
    logins.failed("192.0.2.1")
    assert _blocked(logins, "192.0.2.1")
