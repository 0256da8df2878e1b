"""The security lease, shared by a file."""

import os
import struct
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from secmon.cluster.lease import LeaseReader, LeaseWriter, UnlimitedLease
from tests.manual_clock import ManualClock


def test_a_lease_runs_out_and_is_renewed(tmp_path: Path) -> None:
    clock, path = ManualClock(), tmp_path / "run/lease"
    reader = LeaseReader(path, clock)
    assert reader.remaining() == 0.0, "no lease was written yet"
    writer = LeaseWriter(path, clock, seconds=30)
    assert reader.remaining() == 0.0
    writer.renew(since=clock.boottime())
    assert reader.remaining() == 30
    clock.advance(29)
    assert reader.remaining() == 1
    clock.advance(2)
    assert reader.remaining() == 0.0
    writer.renew(since=clock.boottime())
    assert reader.remaining() == 30
    writer.expire()
    assert reader.remaining() == 0.0
    writer.close()
    reader.close()


def test_a_lease_counts_from_the_question_and_is_never_shortened(tmp_path: Path) -> None:
    clock, path = ManualClock(), tmp_path / "lease"
    writer, reader = LeaseWriter(path, clock, seconds=30), LeaseReader(path, clock)
    writer.renew(since=clock.boottime() - 10)
    assert reader.remaining() == 20
    writer.renew(since=clock.boottime() - 15)
    assert reader.remaining() == 20
    writer.close()
    reader.close()


def test_a_new_daemon_continues_the_remaining_lease(tmp_path: Path) -> None:
    clock, path = ManualClock(), tmp_path / "lease"
    first, reader = LeaseWriter(path, clock, seconds=30), LeaseReader(path, clock)
    first.renew(since=clock.boottime())
    first.close()
    clock.advance(10)
    second = LeaseWriter(path, clock, seconds=30)
    assert reader.remaining() == 20
    second.renew(since=clock.boottime() - 25)
    assert reader.remaining() == 20, "never shortened"
    second.close()
    clock.advance(21)
    third = LeaseWriter(path, clock, seconds=30)
    assert reader.remaining() == 0.0
    for each in (third, reader):
        each.close()


def test_a_lease_longer_than_a_full_one_is_not_taken_over(tmp_path: Path) -> None:
    clock, path = ManualClock(), tmp_path / "lease"
    LeaseWriter(path, clock, seconds=30).renew(since=clock.boottime())
    writer, reader = LeaseWriter(path, clock, seconds=10), LeaseReader(path, clock)
    assert reader.remaining() == 0.0
    writer.close()
    reader.close()


def test_a_lease_of_another_boot_is_not_taken_over(tmp_path: Path) -> None:
    clock, path = ManualClock(), tmp_path / "lease"
    LeaseWriter(path, clock, seconds=30).renew(since=clock.boottime())
    whole = path.read_bytes()
    path.write_bytes(whole[:8] + bytes(byte ^ 1 for byte in whole[8:16]) + whole[16:])
    writer, reader = LeaseWriter(path, clock, seconds=30), LeaseReader(path, clock)
    assert reader.remaining() == 0.0
    writer.close()
    reader.close()


EVENTS = st.one_of(
    st.tuples(st.just("advance"), st.floats(0, 40)),
    st.tuples(st.just("suspend"), st.floats(0, 40)),
    st.tuples(st.just("set the clock"), st.floats(-1e6, 1e6)),
    st.tuples(st.just("restart"), st.just(0.0)),
    st.tuples(st.just("heard"), st.floats(0, 40)),
)


@settings(max_examples=200)
@given(st.lists(EVENTS, max_size=30))
def test_nothing_lengthens_a_lease(tmp_path_factory: pytest.TempPathFactory, events: list[tuple[str, float]]) -> None:
    """It lasts until a full lease after the latest question that was answered, whatever happens meanwhile."""
    clock, path = ManualClock(), tmp_path_factory.getbasetemp() / "lease-of-events"
    path.unlink(missing_ok=True)
    writer, reader = LeaseWriter(path, clock, seconds=30), LeaseReader(path, clock)
    elapsed, end = 0.0, 0.0
    for what, seconds in events:
        match what:
            case "advance":
                clock.advance(seconds)
                elapsed += seconds
            case "suspend":
                clock.suspend(seconds)
                elapsed += seconds
            case "set the clock":
                clock.set_wall(clock.now() + timedelta(seconds=seconds))
            case "restart":
                writer.close()
                writer = LeaseWriter(path, clock, seconds=30)
            case "heard":
                writer.renew(since=clock.boottime() - seconds)
                end = max(end, elapsed - seconds + 30)
        assert reader.remaining() == pytest.approx(max(0.0, end - elapsed), abs=1e-6)
    writer.close()
    reader.close()


def test_a_reader_follows_a_file_made_again(tmp_path: Path) -> None:
    clock, path = ManualClock(), tmp_path / "lease"
    first, reader = LeaseWriter(path, clock, seconds=30), LeaseReader(path, clock)
    first.renew(since=clock.boottime())
    assert reader.remaining() == 30
    os.unlink(path)
    assert reader.remaining() == 0.0
    second = LeaseWriter(path, clock, seconds=7)
    second.renew(since=clock.boottime())
    assert reader.remaining() == 7
    for each in (first, second, reader):
        each.close()


@settings(max_examples=100)
@given(st.binary(max_size=32))
def test_a_file_that_the_daemon_did_not_write_is_not_trusted(
    tmp_path_factory: pytest.TempPathFactory, data: bytes
) -> None:
    path = tmp_path_factory.getbasetemp() / "doubtful-lease"
    path.unlink(missing_ok=True)
    path.write_bytes(data)
    reader = LeaseReader(path, ManualClock())
    assert reader.remaining() == 0.0
    reader.close()


def test_a_torn_write_and_another_boot_are_not_trusted(tmp_path: Path) -> None:
    clock, path = ManualClock(), tmp_path / "lease"
    writer, reader = LeaseWriter(path, clock, seconds=30), LeaseReader(path, clock)
    writer.renew(since=clock.boottime())
    whole = path.read_bytes()
    path.write_bytes(struct.pack("=d", 9e9) + whole[8:])
    assert reader.remaining() == 0.0
    path.write_bytes(whole[:8] + bytes(byte ^ 1 for byte in whole[8:]))
    assert reader.remaining() == 0.0
    path.write_bytes(whole)
    assert reader.remaining() == 30
    writer.close()
    reader.close()


def test_the_master_needs_none() -> None:
    assert UnlimitedLease().remaining() == float("inf")


def test_a_lease_whose_file_is_removed_is_written_again(tmp_path: Path) -> None:
    clock, path = ManualClock(), tmp_path / "run/lease"
    writer, reader = LeaseWriter(path, clock, seconds=30), LeaseReader(path, clock)
    writer.renew(since=clock.boottime())
    assert reader.remaining() == 30
    path.unlink()
    path.parent.rmdir()
    assert reader.remaining() == 0.0
    clock.advance(1)
    writer.renew(since=clock.boottime())
    assert reader.remaining() == 30
    writer.close()
    reader.close()


def test_the_code_of_a_refusal_is_kept_until_the_node_is_admitted(tmp_path: Path) -> None:
    clock, path = ManualClock(), tmp_path / "lease"
    reader = LeaseReader(path, clock)
    assert reader.refusal() is None
    writer = LeaseWriter(path, clock, seconds=30)
    assert reader.refusal() is None
    writer.refused(3025)
    assert (reader.refusal(), reader.remaining()) == (3025, 0.0)
    writer.refused(None)
    writer.renew(since=clock.boottime())
    assert (reader.refusal(), reader.remaining()) == (None, 30)
    writer.refused(3028)
    assert (reader.refusal(), reader.remaining()) == (3028, 30)
    writer.close()
    writer = LeaseWriter(path, clock, seconds=30)
    assert reader.refusal() is None
    writer.close()
    reader.close()
