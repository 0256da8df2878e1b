"""Files of rules and decoders: uploading and deleting them (analysis-api.md 5)."""

import asyncio
import threading

import pytest

from secmon.cluster.node import Finding, RulesetKind
from secmon.common.paths import Paths
from secmon.engine.catalogue import RulesetCatalogue
from secmon.operations.ruleset.file_operations import MAX_NOTES, remarks
from tests.operations.analyst import LOGIN_RULE, SHOP_DECODERS, SHOP_RULES, stocked
from tests.operations.office import Office
from tests.operations.world import World
from tests.waiting import LIMIT_SECONDS

pytestmark = pytest.mark.anyio

PUT, DELETE = "PUT /rules/files/{filename}", "DELETE /rules/files/{filename}"
PATH = "etc/rules/own.xml"


@pytest.fixture
def office(alone: World) -> Office:
    return stocked(alone)


async def test_a_file_is_stored_and_seen_at_once(office: Office) -> None:
    body = await office.ask(PUT, filename="own.xml", body=LOGIN_RULE)
    assert (body["error"], body["data"]["affected_items"], body["message"]) == (0, [PATH], "The file was stored")
    assert (await office.one("GET /rules", rule_ids=[100900]))["filename"] == "own.xml"
    body = await office.ask(DELETE, filename="own.xml", relative_dirname="etc/rules/")
    assert body["data"]["affected_items"] == [PATH]
    assert await office.failed(DELETE, filename="own.xml") == [(1906, [PATH])]


async def test_warnings_of_the_engine_are_reported(office: Office) -> None:
    twice = LOGIN_RULE.replace(b"100900", b"100730")
    body = await office.ask(PUT, filename="zown.xml", body=twice)
    assert body["error"] == 0
    assert "100730 exists already" in body["message"]
    assert "etc/rules/zown.xml, line 1" in body["message"]
    body = await office.ask("DELETE /lists/files/{filename}", filename="vip")
    assert body["data"]["affected_items"] == ["etc/lists/vip"]


BROKEN = LOGIN_RULE.replace(b"<match>", b"<regex>(</regex><match>")
OWN_DECODER = b"<decoder name='own'><prematch>^own </prematch></decoder>"
OWN_RULE = LOGIN_RULE.replace(b"<match>", b"<decoded_as>own</decoded_as><match>")
DECODERS = "/decoders/files/{filename}"


def own_files(office: Office) -> dict[str, bytes]:
    etc = office.node.paths.etc
    return {str(file.relative_to(etc)): file.read_bytes() for file in etc.rglob("*") if file.is_file()}


async def test_a_change_that_breaks_the_ruleset_is_refused(office: Office) -> None:
    await office.ask(PUT, filename="own.xml", body=LOGIN_RULE)
    before = own_files(office)
    body = await office.ask(PUT, filename="own.xml", body=BROKEN, overwrite=True)
    [failed] = body["data"]["failed_items"]
    assert (body["error"], failed["error"]["code"], failed["id"]) == (1, 1908, [PATH])
    assert "etc/rules/own.xml, line 1" in failed["error"]["message"]
    # what is well formed but unknown, what other files need, and what is new
    unknown = LOGIN_RULE.replace(b"match>", b"mach>")
    assert await office.failed(PUT, filename="new.xml", body=unknown) == [(1908, ["etc/rules/new.xml"])]
    assert await office.failed("DELETE " + DECODERS, filename="shop_decoders.xml") == [
        (1908, ["etc/decoders/shop_decoders.xml"])
    ]
    other = OWN_DECODER.replace(b"<prematch>", b"<parent>nobody</parent><prematch>")
    assert await office.failed("PUT " + DECODERS, filename="own.xml", body=other) == [(1908, ["etc/decoders/own.xml"])]
    assert own_files(office) == before
    assert (await office.ask("GET /manager/configuration/validation"))["error"] == 0


async def test_a_broken_ruleset_can_be_repaired_and_must_not_get_worse(office: Office) -> None:
    etc = office.node.paths.etc
    await office.ask("PUT " + DECODERS, filename="own.xml", body=OWN_DECODER)
    (etc / "rules/by_hand.xml").write_bytes(BROKEN)
    (etc / "rules/shop_rules.xml").write_bytes(b"<group name='a'><rule id='1'/></group>")
    body = await office.ask(PUT, filename="own.xml", body=OWN_RULE)
    assert body["error"] == 0, "it is right by itself"
    assert "The engine cannot use the ruleset: ERROR" in body["message"]
    for name, data in (("other.xml", BROKEN), ("own.xml", BROKEN.replace(b"100900", b"100901"))):
        assert await office.failed(PUT, filename=name, body=data, overwrite=True) == [(1908, [f"etc/rules/{name}"])]
    assert await office.failed("DELETE " + DECODERS, filename="own.xml") == [(1908, ["etc/decoders/own.xml"])]
    assert (await office.ask(PUT, filename="by_hand.xml", body=BROKEN, overwrite=True))["error"] == 0, "no worse"
    assert (await office.ask(DELETE, filename="by_hand.xml"))["error"] == 0
    body = await office.ask(PUT, filename="shop_rules.xml", body=SHOP_RULES, overwrite=True)
    assert (body["error"], "cannot use" in body["message"]) == (0, False)
    assert (await office.ask("GET /manager/configuration/validation"))["error"] == 0


async def test_changes_of_several_clients_are_judged_one_after_the_other(office: Office) -> None:
    """Each is right by itself; both together break the ruleset."""
    for turn in range(3):
        await office.ask("PUT " + DECODERS, filename="own.xml", body=OWN_DECODER, overwrite=True)
        if turn:
            await office.ask(DELETE, filename="own.xml")
        bodies = await asyncio.gather(
            office.ask(PUT, filename="own.xml", body=OWN_RULE), office.ask("DELETE " + DECODERS, filename="own.xml")
        )
        assert sorted(body["error"] for body in bodies) == [0, 1]
        assert (await office.ask("GET /manager/configuration/validation"))["error"] == 0
        (office.node.paths.etc / "rules/own.xml").unlink(missing_ok=True)
        (office.node.paths.etc / "rules/own.xml").write_bytes(LOGIN_RULE)


class SlowDisk(RulesetCatalogue):
    """Writes on demand."""

    def __init__(self, paths: Paths) -> None:
        super().__init__(paths)
        self.writing, self.go = threading.Event(), threading.Event()

    def write(self, kind: RulesetKind, path: str, data: bytes, *, overwrite: bool) -> None:
        self.writing.set()
        self.go.wait(LIMIT_SECONDS)
        super().write(kind, path, data, overwrite=overwrite)


async def test_a_change_whose_client_gave_up_is_still_judged_with(office: Office) -> None:
    await office.ask("PUT " + DECODERS, filename="own.xml", body=OWN_DECODER)
    disk = office.node.services.ruleset = SlowDisk(office.node.paths)
    upload = asyncio.ensure_future(office.ask(PUT, filename="own.xml", body=OWN_RULE))
    await asyncio.to_thread(disk.writing.wait, 60)
    upload.cancel()
    deletion = asyncio.ensure_future(office.failed("DELETE " + DECODERS, filename="own.xml"))
    done, _ = await asyncio.wait({deletion}, timeout=0.5)
    assert not done
    disk.go.set()
    assert await deletion == [(1908, ["etc/decoders/own.xml"])]
    with pytest.raises(asyncio.CancelledError):
        await upload
    assert (office.node.paths.root / PATH).read_bytes() == OWN_RULE


async def test_a_configuration_that_breaks_the_ruleset_is_refused(office: Office) -> None:
    file = office.node.paths.main_config
    before = file.read_bytes()
    extra = b"<ossec_config><ruleset><decoder_exclude>shop_decoders.xml</decoder_exclude></ruleset></ossec_config>"
    [failed] = await office.failed("PUT /manager/configuration", body=before + extra)
    assert (failed, file.read_bytes() == before) == ((1908, ["manager"]), True)
    both = extra.replace(b"</ruleset>", b"<rule_exclude>shop_rules.xml</rule_exclude></ruleset>")
    assert (await office.ask("PUT /manager/configuration", body=before + both))["error"] == 0


async def test_new_findings_about_other_files_are_reported_once(office: Office) -> None:
    first = LOGIN_RULE.replace(b"100900", b"100730")
    body = await office.ask(PUT, filename="aown.xml", body=first)
    assert "100730 exists already" in body["message"]
    assert "etc/rules/shop_rules.xml, line" in body["message"]
    body = await office.ask(PUT, filename="zown.xml", body=LOGIN_RULE)
    assert "exists already" not in body["message"]


async def test_existing_files(office: Office) -> None:
    await office.ask(PUT, filename="own.xml", body=LOGIN_RULE)
    assert await office.failed(PUT, filename="own.xml", body=LOGIN_RULE) == [(1905, [PATH])]
    other = LOGIN_RULE.replace(b"Groceries", b"Food")
    assert (await office.ask(PUT, filename="own.xml", body=other, overwrite=True))["error"] == 0
    assert (office.node.paths.root / PATH).read_bytes() == other
    assert await office.failed(PUT, filename="own.xml", body=b"<a>", overwrite=True) == [(1113, [PATH])]
    assert (office.node.paths.root / PATH).read_bytes() == other


@pytest.mark.parametrize(
    ("body", "folder", "code"),
    [
        (b"", None, 1112),
        (b"<a>", None, 1113),
        (b"<a/>", "etc/rules/sub", 1209),
        (b"", "etc/decoders", 1209),
        (b"<a/>", "ruleset/rules", 1210),
    ],
)
async def test_refusals(office: Office, body: bytes, folder: str | None, code: int) -> None:
    path = f"{folder or 'etc/rules'}/own.xml"
    assert await office.failed(PUT, filename="own.xml", body=body, relative_dirname=folder) == [(code, [path])]
    assert not (office.node.paths.root / path).exists()


@pytest.mark.parametrize("name", ["x" * 252 + ".xml", "ä" * 126 + ".xml"])
async def test_a_name_that_no_file_system_takes(office: Office, name: str) -> None:
    refused = await office.refused(PUT, filename=name, body=LOGIN_RULE)
    assert (refused.code, refused.kind.status) == (1006, 400)
    refused = await office.refused("PUT /lists/files/{filename}", filename="x" * 256, body=b"a:b\n")
    assert (refused.code, refused.kind.status) == (1006, 400)


async def test_no_text(office: Office) -> None:
    assert (await office.refused(PUT, filename="own.xml", body=b"\xff")).code == 1911


async def test_the_decoders_folder(office: Office) -> None:
    put = "PUT /decoders/files/{filename}"
    body = await office.ask(put, filename="own.xml", body=SHOP_DECODERS.replace(b"shop", b"mart"))
    assert (body["error"], body["data"]["affected_items"]) == (0, ["etc/decoders/own.xml"])
    assert await office.failed(put, filename="own.xml", body=b"<a/>", relative_dirname="etc/rules") == [
        (1505, ["etc/rules/own.xml"])
    ]


async def test_permissions(office: Office) -> None:
    await office.caller("writer1", ("rules:update", "*:*:*", "allow"), ("rules:delete", "rule:file:own.xml", "allow"))
    assert (await office.refused(PUT, "nobody", filename="own.xml", body=LOGIN_RULE)).code == 4000
    assert (await office.ask(PUT, "writer1", filename="own.xml", body=LOGIN_RULE))["error"] == 0
    assert (await office.ask(PUT, "writer1", filename="own.xml", body=LOGIN_RULE, overwrite=True))["error"] == 0
    assert await office.failed(PUT, "writer1", filename="shop_rules.xml", body=LOGIN_RULE, overwrite=True) == [
        (4000, ["etc/rules/shop_rules.xml"])
    ]
    assert (await office.refused(DELETE, "writer1", filename="shop_rules.xml")).code == 4000
    assert (await office.ask(DELETE, "writer1", filename="own.xml"))["error"] == 0


async def test_a_broken_ruleset_is_no_valid_installation(office: Office) -> None:
    validation, restart = "GET /manager/configuration/validation", "PUT /manager/restart"
    assert (await office.ask(validation))["error"] == 0
    (office.node.paths.etc / "rules/own.xml").write_bytes(LOGIN_RULE.replace(b"<match>", b"<regex>(</regex><match>"))
    body = await office.ask(validation)
    [failed] = body["data"]["failed_items"]
    assert (failed["error"]["code"], failed["id"]) == (1908, ["manager"])
    assert PATH in failed["error"]["message"]
    assert await office.failed(restart) == [(1908, ["manager"])]
    running = next(iter(office.world.nodes.values()))
    assert running.control.restarts == 0


def test_remarks_about_other_files_when_they_are_new() -> None:
    old, new = Finding(False, "old", "b.xml"), Finding(False, "new", "b.xml")
    assert remarks([old, new], "a.xml", [old]) == ["new"]
    assert remarks([old, new], "a.xml", [Finding(True, "broken", "a.xml")]) == []


def test_remarks_are_bounded() -> None:
    findings = [Finding(False, f"w{number}", "a.xml") for number in range(MAX_NOTES + 2)]
    assert remarks(findings, "a.xml")[-2:] == [f"w{MAX_NOTES - 1}", "2 more findings"]
    assert remarks(findings, "b.xml") == []
    assert remarks([Finding(True, "broken", "c.xml")], "b.xml") == ["The engine cannot use the ruleset: broken"]
