"""The table of cluster.md 4.2.1, and paths that a hostile peer could send."""

import pytest

from secmon.common.errors import SecmonError
from secmon.common.files.categories import category_of, checked


@pytest.mark.parametrize(
    ("path", "folder"),
    [
        ("etc/shared/default/agent.conf", "etc/shared"),
        ("etc/shared/a/b/c/x", "etc/shared"),
        ("etc/shared/top", "etc/shared"),
        ("etc/shared/client.keys", "etc/shared"),
        ("var/multigroups/3a5b/merged.mg", "var/multigroups"),
        ("etc/rules/local_rules.xml", "etc/rules"),
        ("etc/decoders/sub/d.xml", "etc/decoders"),
        ("etc/lists/audit-keys.cdb", "etc/lists"),
        ("etc/rules/x.tmp/inside", "etc/rules"),
    ],
)
def test_replicated(path: str, folder: str) -> None:
    assert checked(path).folder == folder


@pytest.mark.parametrize(
    "path",
    [
        "etc/ossec.conf",
        "etc/authd.pass",
        "etc/client.keys",
        "etc/shared/ar.conf",
        "etc/rulesx/a.xml",
        "etc/rules",
        "etc/shared/g/ar.conf",
        "etc/shared/g/ossec.conf",
        "etc/shared/g/x.tmp",
        "etc/shared/g/x~",
        "etc/rules/.a.xml.swp",
        "etc/lists/a.lock",
        "var/multigroups/3a5b/agent.conf",
        "var/run/merged.mg",
        "api/configuration/api.yaml",
        "client.keys",
        "",
    ],
)
def test_not_replicated(path: str) -> None:
    assert category_of(path) is None


@pytest.mark.parametrize(
    "path",
    [
        "../etc/rules/x",
        "etc/rules/../ossec.conf",
        "etc/rules/../../../passwd",
        "/etc/rules/x",
        "/etc/passwd",
        "etc//rules/x",
        "etc/rules//x",
        "etc/rules/./x",
        "etc/rules/",
        "etc/rules/x\0y",
        "./etc/rules/x",
        "etc/rules/..",
        "etc/rules/" + "a" * 256,
        "etc/rules/" + "d/" * 60 + "x",
        "etc/rules/" + ("d" * 250 + "/") * 20 + "x",
        "etc/rules/bad-\udcff",
        "",
    ],
)
def test_path_tricks_are_refused(path: str) -> None:
    with pytest.raises(SecmonError) as caught:
        checked(path)
    assert caught.value.code == 3045


def test_modes_are_those_of_the_table() -> None:
    assert checked("etc/rules/a.xml").mode == 0o660
    assert checked("etc/shared/g/f").remove_emptied
    assert not checked("etc/lists/f").remove_emptied
