"""Who compiles a ruleset that is validated: the analysis daemon or a separate process, never a daemon with calls."""

import subprocess
import sys

import pytest

from secmon.cluster.analysis_client import EngineClient
from secmon.common.errors import SecmonError
from secmon.daemons.ruleset_validation import NodeRulesetValidation
from secmon.engine.ruleset.validation import RulesetValidator
from tests.operations.analyst import LOGIN_RULE, analysing, stocked
from tests.operations.office import Office
from tests.operations.world import World

pytestmark = pytest.mark.anyio

BROKEN = LOGIN_RULE.replace(b"<match>", b"<regex>(</regex><match>")
FILE = "etc/rules/own.xml"


@pytest.fixture
def office(alone: World) -> Office:
    return stocked(alone)


def test_the_daemons_with_calls_do_not_load_the_compiler() -> None:
    program = (
        "import sys, secmon.daemons.apid, secmon.daemons.clusterd; "
        "sys.exit(any(one in sys.modules for one in "
        "('secmon.engine.ruleset.compiled', 'secmon.engine.ruleset.validation', 'secmon.engine.rules.rule_loader')))"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


async def test_the_analysis_daemon_gives_the_verdict(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    async def no_process(*arguments: object) -> bytes:
        raise AssertionError("a process was started")

    monkeypatch.setattr(NodeRulesetValidation, "_run", no_process)
    node = office.node
    async with analysing(node):
        assert (await office.ask("GET /manager/configuration/validation"))["error"] == 0
        put = "PUT /rules/files/{filename}"
        assert await office.failed(put, filename="own.xml", body=BROKEN) == [(1908, [FILE])]
        assert (await office.ask(put, filename="own.xml", body=LOGIN_RULE))["error"] == 0
        (node.paths.root / FILE).write_bytes(BROKEN)
        [(code, _)] = await office.failed("GET /manager/configuration/validation")
        assert code == 1908


async def test_a_process_gives_the_same_verdict_while_the_analysis_does_not_run(office: Office) -> None:
    paths = office.node.paths
    validation = NodeRulesetValidation(EngineClient(paths.analysis_socket, paths.logtest_socket), paths)
    validator = RulesetValidator(paths)
    for changed in ({}, {FILE: BROKEN}, {FILE: LOGIN_RULE}, {"etc/decoders/shop_decoders.xml": None}):
        assert await validation.findings(changed) == list(validator.findings(changed))
        assert await validation.blocking_error(changed) == validator.blocking_error(changed)
    assert await validation.blocking_error({FILE: BROKEN}) is not None


async def test_a_validation_that_fails_is_no_verdict(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = office.node.paths
    validation = NodeRulesetValidation(EngineClient(paths.analysis_socket, paths.logtest_socket), paths)
    monkeypatch.setattr("secmon.daemons.ruleset_validation._MODULE", "secmon.no_such_module")
    with pytest.raises(SecmonError) as raised:
        await validation.findings()
    assert raised.value.code == 1904
    assert "no_such_module" in raised.value.message
