"""``secmon ruleset`` and ``secmon logtest``, by click's runner."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from secmon.cli import main

LOG = "Nov 14 10:12:01 web1 sshd[811]: Accepted password for ana from 192.0.2.1 port 40022 ssh2"
RULES = """<group name="g,">
<rule id="1" level="0" noalert="1"><category>syslog</category><description>all</description></rule>
<rule id="100001" level="5"><match>door</match><description>a door</description></rule>
</group>"""
CASES = "[a door]\nlog 1 pass = the door\nlog 2 fail = the window\nrule = 100001\nalert = 5\ndecoder =\n"


def run(*arguments: str | Path, text: str | None = None) -> Result:
    return CliRunner().invoke(main, [str(each) for each in arguments], input=text)


def data(result: Result) -> Any:
    return json.loads(result.stdout)["data"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A ruleset of one rule, with a case."""
    for name, text in {
        "decoders/d.xml": '<decoder name="d"><prematch>^d</prematch></decoder>',
        "rules/r.xml": RULES,
    }.items():
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text(text)
    (tmp_path / "cases.ini").write_text(CASES)
    return tmp_path


def test_check_of_the_default_ruleset() -> None:
    done = run("ruleset", "check", "--json")
    assert done.exit_code == 0, done.output
    assert data(done)["valid"]
    assert data(done)["counts"]["rules"] >= 300


def test_check_names_what_is_wrong(folder: Path) -> None:
    assert run("ruleset", "check", "--ruleset", folder).exit_code == 0
    rules = folder / "rules/r.xml"
    rules.write_text(RULES.replace("<match>", "<if_sid>7</if_sid><match>"))
    warned = run("ruleset", "check", "--ruleset", folder)
    assert warned.exit_code == 1
    assert "ruleset/rules/r.xml:3: warning 7617: rule 7, a parent of rule 100001, is not loaded" in warned.stdout
    rules.write_text(RULES.replace("match>", "mach>"))
    failed = run("ruleset", "check", "--ruleset", folder, "--json")
    assert failed.exit_code == 1
    assert not data(failed)["valid"]
    assert data(failed)["messages"][0]["severity"] == "ERROR"
    assert data(failed)["messages"][0]["file"] == "ruleset/rules/r.xml"


def test_check_of_an_installation(root: Path) -> None:
    assert run("init", root / "n").exit_code == 0
    done = run("ruleset", "check", "--root", root / "n")
    assert (done.exit_code, done.output.count("\n")) == (0, 1)
    (root / "n/etc/rules/local_rules.xml").write_text("<group>")
    assert "local_rules.xml" in run("ruleset", "check", "--root", root / "n").output
    assert "holds no installation" in run("ruleset", "check", "--root", root / "none").output


def test_cases_as_expected(folder: Path) -> None:
    done = run("ruleset", "test", folder, "--ruleset", folder)
    assert (done.exit_code, done.stdout) == (0, "2 of 2 cases as expected\n")


def test_cases_that_differ(folder: Path) -> None:
    cases = folder / "cases.ini"
    cases.write_text(CASES.replace("alert = 5", "alert = 6"))
    done = run("ruleset", "test", cases, "--ruleset", folder)
    assert done.exit_code == 1
    place, counted = done.stdout.splitlines()
    assert place == (
        f"{cases}:2: [a door] log 1 pass: expected rule 100001, level 6, decoder none; "
        "found rule 100001, level 5, decoder none"
    )
    assert counted == "1 of 2 cases as expected"
    shown = data(run("ruleset", "test", cases, "--ruleset", folder, "--json"))
    assert (shown["cases"], shown["failed"]) == (2, 1)
    assert shown["failures"][0]["found"] == {"rule": "100001", "alert": "5", "decoder": ""}


def test_cases_that_cannot_be_read(folder: Path) -> None:
    (folder / "cases.ini").write_text("log 1 pass = x")
    broken = run("ruleset", "test", folder, "--ruleset", folder)
    assert (broken.exit_code, "cases.ini:1" in broken.output) == (1, True)
    (folder / "cases.ini").unlink()
    assert "no cases found" in run("ruleset", "test", folder, "--ruleset", folder).output


def test_cases_around_lines_that_cannot_be_read_are_run(folder: Path) -> None:
    cases, other = folder / "cases.ini", folder / "other.ini"
    cases.write_text(CASES.replace("rule =", "nonsense\nrule =") + "[no logs]\nrule = 1\n" + CASES)
    other.write_text("before any section\nand more\n" + CASES.replace("log 1 pass", "log 1 pas"))
    (folder / "gone.ini").symlink_to("nowhere")
    done = run("ruleset", "test", folder, "--ruleset", folder)
    assert done.exit_code == 1
    assert done.stdout.splitlines() == [
        f"{cases}:4: no '=' in 'nonsense'",
        f"{cases}:8: section 'no logs' has no logs",
        f"{folder}/gone.ini: the file cannot be read: No such file or directory",
        f"{other}:1: the first line must name a section, such as [a failed login]",
        f"{other}:4: unknown key 'log 1 pas', or its value; known: log N pass, log N fail, rule, alert, decoder, "
        "field NAME, at, type (1, f, internal decoder)",
        "5 of 5 cases as expected; 5 mistakes in the files",
    ]
    shown = data(run("ruleset", "test", cases, "--ruleset", folder, "--json"))
    assert (shown["cases"], shown["failed"]) == (4, 0)
    assert shown["mistakes"][0] == {"file": str(cases), "line": 4, "problem": "no '=' in 'nonsense'"}
    stats = run("ruleset", "stats", cases, "--ruleset", folder, "--json")
    assert (stats.exit_code, data(stats)["never_hit"]) == (1, [])
    assert f"{cases}:4: no '='" in stats.stderr


def test_check_reads_lists_in_folders(folder: Path) -> None:
    lists = folder / "lists/amazon/aws"
    lists.parent.mkdir(parents=True)
    lists.write_text("DeleteTrail:high\n")
    (folder / "lists/amazon/aws.cdb").write_bytes(b"\0\1")
    looked_up = '<list field="user" lookup="match_key">etc/lists/amazon/aws</list><description>'
    (folder / "rules/r.xml").write_text(RULES.replace("<description>a door", looked_up + "a door"))
    done = run("ruleset", "check", "--ruleset", folder)
    assert (done.exit_code, "1 lists" in done.stdout) == (0, True), done.output


def test_one_source_only(folder: Path) -> None:
    done = run("ruleset", "check", "--ruleset", folder, "--root", folder)
    assert (done.exit_code, "not both" in done.output) == (2, True)


def test_stats(folder: Path) -> None:
    rules = folder / "rules/r.xml"
    second = '<rule id="100002" level="3"><match>never</match><description>never</description></rule></group>'
    rules.write_text(RULES.replace("</group>", second))
    shown = data(run("ruleset", "stats", folder, "--ruleset", folder, "--json"))
    assert shown["levels"] == {"0": 1, "3": 1, "5": 1}
    assert shown["never_hit"] == [100002]
    assert {one["rule"] for one in shown["slowest"]} == {1, 100001}
    plain = run("ruleset", "stats", folder, "--ruleset", folder)
    assert plain.exit_code == 0
    assert "never hit:\n  100002\n" in plain.stdout


def test_stats_of_standards_and_techniques(folder: Path) -> None:
    tagged = (
        '<rule id="100002" level="3"><match>one</match><description>one</description><group>pci_dss_10.2.5,tsc_CC7.2,'
        "pci_dss_11.4,doors</group><mitre><id>T1078</id><id>T9999</id></mitre></rule>"
        '<rule id="100003" level="0"><match>two</match><description>two</description><group>pci_dss_10.2.5,</group>'
        "<mitre><id>T1110</id></mitre></rule></group>"
    )
    (folder / "rules/r.xml").write_text(RULES.replace("</group>", tagged))
    shown = data(run("ruleset", "stats", "--ruleset", folder, "--json"))
    assert shown["standards"] == {"pci_dss": 2, "tsc": 1}
    assert shown["requirements"] == {"pci_dss_10.2.5": 2, "pci_dss_11.4": 1, "tsc_CC7.2": 1}
    assert shown["groups"]["doors"] == 1
    assert not shown["groups"].keys() & shown["requirements"].keys()
    assert (shown["attack"]["rules"], shown["attack"]["techniques"]) == (1, 1), "neither T9999 nor a rule of level 0"
    assert shown["attack"]["techniques in use"] > 600


def test_logtest_shows_the_stages() -> None:
    done = run("logtest", text=f"{LOG}\n{LOG}\n\nwhat is this\n")
    assert done.exit_code == 0, done.output
    first, second, third = done.stdout.split("Stage 1: predecoding\n")[1:]
    assert "  program name: sshd\n" in first
    assert "  name: sshd\n" in first
    assert "  srcip: 192.0.2.1\n" in first
    assert "  id: 210002\n" in first
    assert "  An alert would be written." in first
    assert "  id: 210002\n" not in second, "one session: the second login is no longer the first"
    assert "No decoder matched." in third
    assert "No rule matched." in third


def test_logtest_traces(folder: Path) -> None:
    done = run("logtest", "--ruleset", folder, "--trace", text="the door\n")
    steps = [line.strip() for line in done.stdout.splitlines() if line.lstrip().startswith(("Trying", "*"))]
    assert steps == [
        "Trying rule: 1 - all",
        "*Rule 1 matched",
        "*Trying child rules",
        "Trying rule: 100001 - a door",
        "*Rule 100001 matched",
    ]


def test_logtest_needs_a_ruleset_that_compiles(folder: Path) -> None:
    (folder / "rules/r.xml").write_text("<group>")
    done = run("logtest", "--ruleset", folder, text="x\n")
    assert done.exit_code == 1
    assert done.output.startswith("Error: (1226): ")


def test_update_replaces_ours_and_keeps_theirs(root: Path) -> None:
    assert run("init", root / "n").exit_code == 0
    up_to_date = run("ruleset", "update", "--root", root / "n")
    assert (up_to_date.exit_code, up_to_date.stdout) == (0, "The ruleset is up to date.\n")
    ours, theirs = root / "n/ruleset/rules/0100-sshd_rules.xml", root / "n/etc/lists/audit-keys"
    before = ours.read_bytes()
    ours.write_text("<group>")
    theirs.write_text("mine:read\n")
    (root / "n/ruleset/rules/0000-gone_rules.xml").touch()
    (root / "n/ruleset/decoders/0100-sshd_decoders.xml").unlink()
    done = run("ruleset", "update", "--root", root / "n")
    assert done.stdout.splitlines() == [
        "ruleset/decoders/0100-sshd_decoders.xml",
        "ruleset/rules/0000-gone_rules.xml",
        "ruleset/rules/0100-sshd_rules.xml",
        "3 files changed",
    ]
    assert ours.read_bytes() == before
    assert theirs.read_text() == "mine:read\n"
    assert run("ruleset", "check", "--root", root / "n").exit_code == 0
