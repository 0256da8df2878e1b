"""Rules and decoders of an installation's files, and writing them (analysis-api.md 2, 3, 5)."""

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from secmon.cluster.node import RulesetFile
from secmon.common.errors import SecmonError
from secmon.common.paths import Paths
from secmon.daemons.installation_files import create_installation_files
from secmon.engine.catalogue import RulesetCatalogue
from tests.operations.analyst import SHOP_DECODERS, SHOP_RULES


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    paths = Paths(tmp_path / "node")
    create_installation_files(paths)
    return paths


@pytest.fixture
def catalogue(paths: Paths) -> RulesetCatalogue:
    (paths.etc / "rules/shop_rules.xml").write_bytes(SHOP_RULES)
    (paths.etc / "decoders/shop_decoders.xml").write_bytes(SHOP_DECODERS)
    return RulesetCatalogue(paths)


def configure(paths: Paths, change: Callable[[str], str]) -> None:
    text = paths.main_config.read_text()
    assert change(text) != text
    paths.main_config.write_text(change(text))


def only(name: str) -> Callable[[RulesetFile], bool]:
    return lambda file: file.filename == name


def everything(file: RulesetFile) -> bool:
    return True


def code(work: Callable[[], object]) -> int:
    with pytest.raises(SecmonError) as raised:
        work()
    return raised.value.code


def test_a_rule_as_documented(catalogue: RulesetCatalogue) -> None:
    found = catalogue.definitions("rule", only("shop_rules.xml"))
    assert found.failures == []
    first, second = found.items
    assert first["details"] == {"decoded_as": "shop"}
    assert dict(second) == {
        "filename": "shop_rules.xml", "relative_dirname": "etc/rules", "id": 100731, "level": 9, "status": "enabled",
        "details": {
            "frequency": "6", "timeframe": "120", "if_matched_sid": "100730", "same_source_ip": "",
            "cart.state": {"pattern": "^void$", "type": "pcre2"},
            "match": {"pattern": "refund|chargeback", "negate": "yes"},
            "list": {"name": "etc/lists/vip", "field": "srcuser", "lookup": "not_match_key"},
            "info": {"name": "https://kb.example/7", "type": "link"},
            "options": ["no_full_log", "alert_by_email"],
        },
        "pci_dss": ["10.2.4"], "gpg13": [], "gdpr": ["IV_35.7.d"], "hipaa": [], "nist_800_53": [], "tsc": [],
        "mitre": ["T1110"], "groups": ["fraud", "shop"], "description": "Repeated voids by $(srcuser)",
    }  # fmt: skip


def test_a_decoder_as_documented(catalogue: RulesetCatalogue) -> None:
    found = catalogue.definitions("decoder", only("shop_decoders.xml"))
    assert dict(found.items[1]) == {
        "filename": "shop_decoders.xml", "relative_dirname": "etc/decoders", "status": "enabled", "name": "shop-void",
        "position": 1,
        "details": {
            "parent": "shop", "prematch": {"pattern": "^VOID ", "offset": "after_parent"},
            "regex": {"pattern": r"^(\S+) by (\S+)", "offset": "after_prematch"}, "order": "cart.id, srcuser",
        },
    }  # fmt: skip


def test_repeated_empty_and_odd_elements(paths: Paths, catalogue: RulesetCatalogue) -> None:
    (paths.etc / "rules/odd.xml").write_bytes(
        b"""<var name="ID">100950</var><group name=" a,\n , tsc_CC1 ">
        <rule id="$ID" level="3" noalert="1"><regex>a</regex><Regex type="pcre2">b\xff</Regex>
          <if_sid>$ID</if_sid><url>$ID/x</url><mitre><tacticID>TA1</tacticID><techniqueID>T2</techniqueID></mitre>
          <group>tsc_CC1,cis_1</group></rule>
        <rule id="x" level="3"/><rule id="100951" level="16"/></group>"""
    )
    first, second = catalogue.definitions("rule", only("odd.xml")).items
    assert (first["id"], first["groups"], first["tsc"], first["mitre"]) == (
        100950,
        ["cis_1", "a"],
        ["CC1"],
        ["TA1", "T2"],
    )
    assert first["details"] == {
        "noalert": "1", "regex": {"type": "pcre2", "pattern": "ab\\xff"}, "if_sid": "$ID", "url": {"pattern": "$ID/x"},
    }  # fmt: skip
    assert (second["id"], second["level"], second["details"], second["description"]) == (100951, 16, {}, "")
    (paths.etc / "decoders/odd.xml").write_bytes(
        b"<decoder name='a' status='x'><accumulate/><regex/><regex offset='after_regex'>b</regex><regex>c</regex></decoder>"
    )
    [one] = catalogue.definitions("decoder", only("odd.xml")).items
    details = {"status": "x", "accumulate": None, "regex": {"pattern": "bc", "offset": "after_regex"}}
    assert one["details"] == details


def test_changes_are_seen_and_nothing_else_is_read_again(paths: Paths, catalogue: RulesetCatalogue) -> None:
    before = catalogue.definitions("rule", everything).items
    again = catalogue.definitions("rule", everything).items
    assert all(one is other for one, other in zip(before, again, strict=True))
    catalogue.write("rule", "etc/rules/shop_rules.xml", SHOP_RULES.replace(b"100730", b"100740"), overwrite=True)
    after = catalogue.definitions("rule", everything).items
    assert {item["id"] for item in after} - {item["id"] for item in before} == {100740}
    (paths.etc / "rules/shop_rules.xml").unlink()
    assert len(catalogue.definitions("rule", everything).items) == len(before) - 2


def test_broken_and_unreadable_files(paths: Paths, catalogue: RulesetCatalogue) -> None:
    (paths.etc / "rules/broken.xml").write_bytes(b"<group name='a'>\n<rule></group>")
    found = catalogue.definitions("rule", everything)
    assert [(one.code, one.ids) for one in found.failures] == [(1413, ("etc/rules/broken.xml",))]
    assert "line 2" in found.failures[0].message
    assert any(item["id"] == 100731 for item in found.items)
    configure(
        paths,
        lambda text: text.replace("<rule_dir>etc", "<rule_include>etc/rules/none.xml</rule_include><rule_dir>etc"),
    )
    assert code(lambda: catalogue.definitions("rule", everything)) == 1201


def test_files_that_the_configuration_names(paths: Paths, catalogue: RulesetCatalogue) -> None:
    (paths.etc / "rules/sub").mkdir()
    (paths.etc / "rules/sub/hidden.xml").write_bytes(b"<group name='a'/>")
    (paths.etc / "rules/notes.txt").touch()
    (paths.root / "ruleset/rules/extra.xml").write_bytes(b"<group name='a'/>")
    assert "etc/rules/shop_rules.xml" in [file.path for file in catalogue.listed("rule")]
    listing = "<rule_include>extra.xml</rule_include><rule_exclude>shop_rules.xml</rule_exclude><rule_dir>etc"
    configure(paths, lambda text: text.replace("<rule_dir>etc", listing))
    listed = {file.path: file.status for file in catalogue.listed("rule")}
    assert next(iter(listed)) == "ruleset/rules/extra.xml"
    assert listed["etc/rules/shop_rules.xml"] == "disabled"
    assert {name for name in listed if name.startswith("etc/")} == {"etc/rules/shop_rules.xml"}
    statuses = {item["status"] for item in catalogue.definitions("rule", only("shop_rules.xml")).items}
    assert statuses == {"disabled"}
    names = catalogue.names("rule")
    assert {"hidden.xml", "shop_rules.xml", "extra.xml"} <= names
    assert "notes.txt" not in names


def test_without_a_section(paths: Paths, catalogue: RulesetCatalogue) -> None:
    paths.main_config.write_text("<ossec_config><global/></ossec_config>")
    assert code(lambda: catalogue.listed("rule")) == 1200
    assert code(lambda: catalogue.listed("decoder")) == 1500
    paths.main_config.unlink()
    assert code(lambda: catalogue.listed("rule")) == 1101


def test_where_users_files_go(paths: Paths, catalogue: RulesetCatalogue) -> None:
    assert catalogue.target("rule", "a.xml") == "etc/rules/a.xml"
    assert catalogue.target("decoder", "a.xml", "etc/decoders/") == "etc/decoders/a.xml"
    assert catalogue.target("list", "a") == "etc/lists/a"
    assert code(lambda: catalogue.target("rule", "a.xml", "etc/rules/sub")) == 1209
    assert code(lambda: catalogue.target("decoder", "a.xml", "etc/rules")) == 1505
    configure(
        paths,
        lambda text: text.replace(
            "<rule_dir>etc", "<rule_dir>ruleset/rules</rule_dir><rule_dir>etc/rules/x</rule_dir><rule_dir>etc"
        ),
    )
    assert code(lambda: catalogue.target("rule", "a.xml", "ruleset/rules")) == 1210
    assert code(lambda: catalogue.target("rule", "a.xml", "etc/rules/x")) == 1211


def test_writing_and_deleting(paths: Paths, catalogue: RulesetCatalogue) -> None:
    path = "etc/rules/new.xml"
    catalogue.write("rule", path, b"<group name='a'/>", overwrite=False)
    assert stat.S_IMODE((paths.root / path).stat().st_mode) == 0o660
    assert code(lambda: catalogue.write("rule", path, b"<b/>", overwrite=False)) == 1905
    catalogue.write("rule", path, b"<b/>", overwrite=True)
    assert catalogue.read("rule", path) == b"<b/>"
    assert catalogue.find("rule", "new.xml") == path
    catalogue.delete("rule", path)
    assert code(lambda: catalogue.delete("rule", path)) == 1906
    assert code(lambda: catalogue.find("rule", "new.xml")) == 1415
    assert code(lambda: catalogue.read("rule", path)) == 1415
    assert sorted(os.listdir(paths.etc / "rules")) == ["shop_rules.xml"]


def test_lists_are_found_by_name_alone(paths: Paths, catalogue: RulesetCatalogue) -> None:
    sub = paths.etc / "lists/sub"
    sub.mkdir()
    (sub / "vip").write_bytes(b"a:b\n")
    assert catalogue.find("list", "vip") == "etc/lists/sub/vip"
    assert code(lambda: catalogue.write("list", "etc/lists/vip", b"a:b", overwrite=True)) == 1805
    catalogue.write("list", "etc/lists/own", b"a:b", overwrite=False)
    (paths.etc / "lists/own.cdb").touch()
    catalogue.delete("list", "etc/lists/own")
    assert not (paths.etc / "lists/own.cdb").exists()
    assert code(lambda: catalogue.read("list", "etc/lists/sub")) == 1804
    assert code(lambda: catalogue.find("list", "none")) == 1802


def test_uploads_that_are_refused(catalogue: RulesetCatalogue) -> None:
    assert code(lambda: catalogue.check("rule", b" \n")) == 1112
    assert code(lambda: catalogue.check("rule", b"<a>")) == 1113
    assert code(lambda: catalogue.check("decoder", b"<a>x < y</a>")) == 1113
    assert code(lambda: catalogue.check("decoder", b"<a b='" + b"x" * 30000 + b"'/>")) == 1113
    assert code(lambda: catalogue.check("list", b"a:b:c")) == 1800
    catalogue.check("rule", b"<group name='x'><rule id='no'/></group><other/>")
