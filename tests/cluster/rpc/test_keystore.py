"""Damaged files of a node's certificate."""

import logging
from pathlib import Path

import pytest

from secmon.cluster.rpc import certificates
from secmon.common.errors import SecmonError
from tests.cluster_kit import cluster

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("name", ["node.key", "node.pem", "ca.pem"])
async def test_a_worker_names_a_truncated_file_and_replaces_it(
    tmp_path: Path, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with cluster(tmp_path, "alpha") as kit:
        await kit.workers.pop().stop(grace=0)
        file = kit.paths("alpha").cluster_tls / name
        whole = file.read_bytes()
        file.write_bytes(whole[: len(whole) // 2])
        with caplog.at_level(logging.WARNING):
            await kit.start_worker("alpha")
        assert f"{file}: it is damaged: no readable" in caplog.text
        await kit.joined("alpha")
        if name != "ca.pem":
            assert file.read_bytes().splitlines()[-1].startswith(b"-----END")


async def test_a_key_of_another_certificate(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with cluster(tmp_path, "alpha") as kit:
        await kit.workers.pop().stop(grace=0)
        folder = kit.paths("alpha").cluster_tls
        (folder / "node.key").write_bytes(certificates.key_pem(certificates.new_key()))
        with caplog.at_level(logging.WARNING):
            await kit.start_worker("alpha")
        assert f"{folder / 'node.pem'}: it is not the certificate of node.key" in caplog.text
        await kit.joined("alpha")


async def test_a_master_replaces_a_truncated_key(tmp_path: Path) -> None:
    async with cluster(tmp_path) as kit:
        await kit.masters.pop().stop(grace=0)
        file = kit.paths("master").cluster_tls / "node.key"
        file.write_bytes(file.read_bytes()[:100])
        await kit.start_master()
        certificates.load_key(file.read_bytes())
        await kit.start_worker("alpha")
        await kit.joined("alpha")


@pytest.mark.parametrize("name", ["ca.key", "ca.pem"])
async def test_a_truncated_authority_is_named_with_the_remedy(tmp_path: Path, name: str) -> None:
    async with cluster(tmp_path) as kit:
        await kit.master.stop(grace=0)
        file = kit.paths("master").cluster_tls / name
        file.write_bytes(file.read_bytes()[:100])
        with pytest.raises(SecmonError, match=rf"{name} is damaged: .*; put back a copy of .*, or remove"):
            kit.build_master()
