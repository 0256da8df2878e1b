"""The security lease, shared by a file."""

import os
import struct
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from secmon.common.clock import ManualClock
from secmon.common.lease import LeaseReader, LeaseWriter, UnlimitedLease


def test_a_lease_runs_out_and_is_renewed(tmp_path: Path) -> None:
    clock, path = ManualClock(), tmp_path / "run/lease"
    reader = LeaseReader(path, clock)
    assert reader.remaining() == 0.0, "nobody wrote one yet"
    writer = LeaseWriter(path, clock)
    assert reader.remaining() == 0.0
    writer.renew(30)
    assert reader.remaining() == 30
    clock.advance(29)
    assert reader.remaining() == 1
    clock.advance(2)
    assert reader.remaining() == 0.0
    writer.renew(30)
    assert reader.remaining() == 30
    writer.expire()
    assert reader.remaining() == 0.0
    writer.close()
    reader.close()


def test_a_lease_counts_from_the_question_and_is_never_shortened(tmp_path: Path) -> None:
    clock, path = ManualClock(), tmp_path / "lease"
    writer, reader = LeaseWriter(path, clock), LeaseReader(path, clock)
    writer.renew(30, since=clock.monotonic() - 10)
    assert reader.remaining() == 20
    writer.renew(30, since=clock.monotonic() - 15)
    assert reader.remaining() == 20
    writer.close()
    reader.close()


def test_a_new_daemon_starts_without_a_lease(tmp_path: Path) -> None:
    clock, path = ManualClock(), tmp_path / "lease"
    first, reader = LeaseWriter(path, clock), LeaseReader(path, clock)
    first.renew(30)
    second = LeaseWriter(path, clock)
    assert reader.remaining() == 0.0
    second.renew(5)
    assert reader.remaining() == 5
    for each in (first, second, reader):
        each.close()


def test_a_reader_follows_a_file_made_again(tmp_path: Path) -> None:
    clock, path = ManualClock(), tmp_path / "lease"
    first, reader = LeaseWriter(path, clock), LeaseReader(path, clock)
    first.renew(30)
    assert reader.remaining() == 30
    os.unlink(path)
    assert reader.remaining() == 0.0
    second = LeaseWriter(path, clock)
    second.renew(7)
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
    writer, reader = LeaseWriter(path, clock), LeaseReader(path, clock)
    writer.renew(30)
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


def test_a_lease_whose_file_is_removed_is_written_anew(tmp_path: Path) -> None:
    clock, path = ManualClock(), tmp_path / "run/lease"
    writer, reader = LeaseWriter(path, clock), LeaseReader(path, clock)
    writer.renew(30)
    assert reader.remaining() == 30
    path.unlink()
    path.parent.rmdir()
    assert reader.remaining() == 0.0
    clock.advance(1)
    writer.renew(30)
    assert reader.remaining() == 30
    writer.close()
    reader.close()


def test_the_code_of_a_refusal_stands_until_the_node_is_let_in(tmp_path: Path) -> None:
    clock, path = ManualClock(), tmp_path / "lease"
    reader = LeaseReader(path, clock)
    assert reader.refusal() is None
    writer = LeaseWriter(path, clock)
    assert reader.refusal() is None
    writer.refused(3025)
    assert (reader.refusal(), reader.remaining()) == (3025, 0.0)
    writer.refused(None)
    writer.renew(30)
    assert (reader.refusal(), reader.remaining()) == (None, 30)
    writer.refused(3028)
    assert (reader.refusal(), reader.remaining()) == (3028, 30)
    writer.close()
    writer = LeaseWriter(path, clock)
    assert reader.refusal() is None
    writer.close()
    reader.close()
