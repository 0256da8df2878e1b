"""Conditions for the extension of the security lease."""

from pathlib import Path

import pytest

from secmon.cluster.lease import LeaseReader, LeaseWriter
from secmon.cluster.rpc.gen import secmon_pb2 as pb
from secmon.worker.lease_extension import LeaseExtender
from tests.manual_clock import ManualClock


@pytest.mark.parametrize(
    ("epoch", "revision", "extended"), [("e", 5, True), ("e", 6, True), ("e", 4, False), ("old", 5, False)]
)
def test_an_outdated_replica_does_not_extend_the_lease(
    tmp_path: Path, epoch: str, revision: int, extended: bool
) -> None:
    clock, path = ManualClock(), tmp_path / "lease"
    writer, reader = LeaseWriter(path, clock, seconds=30), LeaseReader(path, clock)
    extender = LeaseExtender(writer, lambda: pb.Position(epoch=epoch, revision=revision))
    answer = pb.MasterHeartbeat(security=pb.Position(epoch="e", revision=5))
    assert extender.heartbeat_answered(answer, clock.boottime() - 2) is extended
    assert reader.remaining() == (28 if extended else 0)
    writer.close()
    reader.close()


@pytest.mark.parametrize("unproved", [0.0, 12.0, 40.0, float("inf")])
def test_the_age_of_the_masters_own_proof_counts(tmp_path: Path, unproved: float) -> None:
    clock, path = ManualClock(), tmp_path / "lease"
    writer, reader = LeaseWriter(path, clock, seconds=30), LeaseReader(path, clock)
    extender = LeaseExtender(writer, pb.Position)
    extender.heartbeat_answered(pb.MasterHeartbeat(unproved=unproved), clock.boottime())
    assert reader.remaining() == max(0.0, 30 - unproved)
    writer.close()
    reader.close()
