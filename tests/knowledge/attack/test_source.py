"""The file in force: the imported one, the product's, the last good one; import and rollback."""

import logging
from io import BytesIO
from pathlib import Path

import pytest

from secmon.common.paths import Paths
from secmon.knowledge.attack.importing import install, read_any, roll_back
from secmon.knowledge.attack.source import AttackSource
from tests.knowledge.attack.bundles import TACTIC, TECHNIQUE, bundle


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    (tmp_path / "etc").mkdir()
    (tmp_path / "var/db").mkdir(parents=True)
    return Paths(tmp_path)


def names(source: AttackSource) -> set[str]:
    return set(source.current().techniques)


def test_the_release_of_the_product(paths: Paths) -> None:
    base = AttackSource(paths).current()
    assert {kind: len(items) for kind, items in base.items.items()} == {
        "tactic": 14, "technique": 835, "group": 187, "software": 787, "mitigation": 268,
    }  # fmt: skip
    assert base.techniques["T1110"] == ("Brute Force", {"TA0006": "Credential Access"})
    assert base.items["tactic"][0]["techniques"]


def test_an_import_is_in_force_at_once_and_can_be_taken_back(paths: Paths) -> None:
    source = AttackSource(paths)
    assert "T1078" in names(source)
    generation = source.generation
    install(paths, read_any(BytesIO(bundle())))
    assert names(source) == {"T1110", "T1110.003"}
    assert source.generation > generation
    install(paths, read_any(BytesIO(bundle(TACTIC, TECHNIQUE))))
    assert names(source) == {"T1110"}
    assert source.technique("T1110.003") is None
    assert roll_back(paths)
    assert names(source) == {"T1110", "T1110.003"}
    assert roll_back(paths)
    assert not roll_back(paths)
    assert "T1078" in names(source)


def test_a_damaged_file_leaves_the_last_good_content(paths: Paths, caplog: pytest.LogCaptureFixture) -> None:
    source = AttackSource(paths)
    install(paths, read_any(BytesIO(bundle())))
    assert len(names(source)) == 2
    paths.attack.write_bytes(paths.attack.read_bytes()[:-40])
    with caplog.at_level(logging.ERROR):
        assert len(names(source)) == 2
        assert len(names(source)) == 2
    assert len(caplog.records) == 1
    assert "cannot be used as ATT&CK" in caplog.text
    assert "T1078" in names(AttackSource(paths))
