"""Hashes for the comparison of rulesets between nodes."""

import hashlib
from pathlib import Path

import pytest

from secmon.cluster.files.digests import LocalFileDigests
from secmon.common.clock import SystemClock
from tests.common.files.folders import write


@pytest.mark.anyio
async def test_hashes_are_read_now_and_of_the_asked_folders_only(tmp_path: Path) -> None:
    write(tmp_path, "etc/rules/a.xml", b"one")
    write(tmp_path, "etc/rules/a.tmp", b"no")
    write(tmp_path, "etc/lists/l", b"l")
    write(tmp_path, "etc/shared/g/f", b"f")
    digests = LocalFileDigests(tmp_path, clock=SystemClock())
    expected = {"etc/lists/l": hashlib.blake2b(b"l", digest_size=32).hexdigest()}
    assert await digests.hashes(["etc/lists"]) == expected
    both = await digests.hashes(["etc/rules", "etc/lists/"])
    assert list(both) == ["etc/lists/l", "etc/rules/a.xml"]
    write(tmp_path, "etc/rules/a.xml", b"two")
    assert (await digests.hashes(["etc/rules"]))["etc/rules/a.xml"] != both["etc/rules/a.xml"]
    (tmp_path / "etc/lists/l").unlink()
    assert await digests.hashes(["etc/lists"]) == {}
