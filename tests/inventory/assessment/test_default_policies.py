"""The policies that come with secmon: they are well-formed, and find what they are to find."""

import re

import pytest

from secmon.config.default_ruleset import default_ruleset_files, default_ruleset_folder
from secmon.engine.matching.expression import compile_expression
from secmon.inventory.assessment.policy_files import PolicyFile, check_policies, read_policy
from tests.inventory.assessment.rule_evaluation import Host, applies, evaluated
from tests.inventory.assessment.sample_hosts import BAD, GOOD

FILES = {file.name: file.read_bytes() for file in sorted((default_ruleset_folder() / "sca").iterdir())}
STANDARDS = {
    "pci_dss": r"\d+(\.\d+)+",
    "nist_800_53": r"[A-Z]{2}\.\d+",
    "tsc": r"CC\d\.\d",
    "hipaa": r"164\.\d+(\.[a-z0-9]+)+",
}


def policy_of(name: str) -> PolicyFile:
    return read_policy(FILES[f"secmon_{name}.yml"], name)


def test_nothing_is_wrong_with_them() -> None:
    assert [str(fault) for fault in check_policies(FILES, compile_expression)] == []


def test_installations_get_them() -> None:
    assert {f"sca/{name}" for name in FILES} <= set(default_ruleset_files())


@pytest.mark.parametrize("file", FILES)
def test_ids_and_requirements(file: str) -> None:
    found = read_policy(FILES[file], file)
    assert found.policy.id == file.removesuffix(".yml")
    assert len({check.id // 100 for check in found.checks}) == 1
    assert all(900_100 <= check.id < 910_000 for check in found.checks)
    titles = [check.title for check in found.checks]
    assert len(titles) == len(set(titles))
    assert all(check.rationale and check.remediation for check in found.checks)
    for check in found.checks:
        for standard, values in ((name, values) for one in check.compliance for name, values in one.items()):
            assert all(re.fullmatch(STANDARDS[standard], value) for value in values)


@pytest.mark.parametrize("name", GOOD)
def test_all_checks_pass_on_a_good_host(name: str) -> None:
    found = policy_of(name)
    assert applies(found, GOOD[name])
    assert [title for title, passed in evaluated(found, GOOD[name]).items() if not passed] == []


@pytest.mark.parametrize("name", BAD)
def test_every_check_fails_on_a_bad_host(name: str) -> None:
    found = policy_of(name)
    passed = [{title for title, right in evaluated(found, host).items() if right} for host in BAD[name]]
    assert set.intersection(*passed) == set()


def test_policies_of_other_systems_do_not_apply() -> None:
    nothing = Host({})
    assert [name for name in FILES if applies(read_policy(FILES[name], name), nothing)] == []
    assert not applies(policy_of("debian"), GOOD["ubuntu"])
    assert not applies(policy_of("rhel"), GOOD["debian"])


def test_windows_keys_are_compared_with_their_values() -> None:
    key = r"HKEY_LOCAL_MACHINE\SYSTEM\CurrentControlSet\Control\Lsa"
    found = policy_of("windows")
    good, bad = (evaluated(found, Host({key: f"LmCompatibilityLevel={level}"})) for level in (5, 3))
    title = "Logon: only NTLMv2 is used"
    assert (good[title], bad[title]) == (True, False)


def test_the_audit_policy_is_read_from_auditpol() -> None:
    found, command = policy_of("windows_audit"), 'auditpol.exe /get /subcategory:"Logon"'
    for level, right in (("Success", False), ("Success and Failure", True), ("No Auditing", False)):
        output = f"Logon/Logoff\n  Logon                                   {level}"
        assert evaluated(found, Host({}, {command: output}))["Audit: logons and failed logons"] == right
