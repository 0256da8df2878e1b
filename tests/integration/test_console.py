"""The web console in a real browser, against the shared cluster."""

import json
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.integration.browser import (
    NEEDS_A_BROWSER,
    WAIT_MS,
    barriers,
    loaded,
    open_console,
    running_browser,
    show,
    sign_in,
)
from tests.integration.kit import RealCluster, RealNode
from tests.waiting import wait_until

AUDITED = {
    "", "agents", "agents/000", "groups/default/configuration", "ruleset", "ruleset/techniques", "ruleset/logtest",
    "cluster", "cluster/worker1", "security/users/1", "security/policies", "api", "api/GET/agents",
}  # fmt: skip
"""Addresses of pages that are built differently; axe-core looks at these."""
PAGES = {
    "": "What needs attention now",
    "agents": "Agents",
    "agents/silent": "Silent sources",
    "agents/000": "Summary",
    "alerts/silences": "New silence",
    "groups": "default",
    "groups/default/configuration": "agent.conf of default",
    "groups/default/files": "ar.conf",
    "ruleset": "0000-roots_rules.xml",
    "ruleset/decoders": "Program",
    "ruleset/lists": "audit-keys",
    "ruleset/techniques": "Initial Access",
    "ruleset/logtest": "Log line",
    "cluster": "Restart all nodes",
    "cluster/worker1": "secmon-remoted",
    "cluster/worker1/logs": "Message",
    "cluster/worker1/counters": "secmon-analysisd",
    "cluster/worker1/configuration": "cluster",
    "security": "admin",
    "security/users/1": "What admin may do",
    "security/roles": "agents_readonly",
    "security/policies": "agents_all_agents",
    "security/rules": "Expression",
    "security/mine": "agent:read",
    "api": "/agents/{agent_id}/key",
    "api/GET/agents": "group_config_status",
}
"""Addresses, and a word on the page when it is loaded."""

pytestmark = NEEDS_A_BROWSER

RULES = "console_rules.xml"
RULE = """<group name="local,">
  <rule id="100777" level="5">
    <if_sid>1</if_sid>
    <match>console-test-4711</match>
    <description>The console knows this.</description>
  </rule>
</group>
"""
ATTACKER = "198.51.100.77"
LOGIN = f"Nov 22 10:00:00 host sshd[4711]: Failed password for root from {ATTACKER} port 40022 ssh2"
INTRUDER = "console-intruder"
NEW_ROOT = f"Nov 22 10:00:00 host useradd[811]: new user: name={INTRUDER}, UID=0, GID=100, home=/root, shell=/bin/sh"
TIMES = 20
"""More often than other tests raise alerts of high levels, so that it is among the rules that are shown."""
READER, READER_PASSWORD = "console-reader", "A-Reader-Word-77"
AGENTS_READONLY = "agents_readonly"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with running_browser() as running:
        yield running


@contextmanager
def console(browser: Browser, node: RealNode) -> Iterator[Page]:
    """The console of ``node``, before a user signs in. No page may report an error or ask another host."""
    context = browser.new_context(ignore_https_errors=True)
    context.set_default_timeout(WAIT_MS)
    page = context.new_page()
    errors: list[str] = []
    elsewhere: list[str] = []
    page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("request", lambda request: elsewhere.append(request.url))
    open_console(page, node.url)
    yield page
    context.close()
    assert not [url for url in elsewhere if not url.startswith(node.url)]
    # The browser itself reports each refusal of the API and each lost connection.
    assert not [text for text in errors if not text.startswith("Failed to load resource")]


@pytest.fixture
def page(browser: Browser, three: RealCluster) -> Iterator[Page]:
    """The console of the master."""
    with console(browser, three.master) as page:
        yield page


def test_a_wrong_password_is_refused_in_words(page: Page) -> None:
    sign_in(page, "admin", "wrong")
    expect(page.get_by_role("alert")).to_contain_text("Invalid credentials")
    assert barriers(page) == []


def test_each_page_loads_and_keeps_nobody_out(page: Page, three: RealCluster) -> None:
    sign_in(page, "admin", three.password)
    found = {}
    for address, word in PAGES.items():
        show(page, address)
        loaded(page, word)
        expect(page.get_by_role("main").get_by_role("alert")).to_have_count(0)
        if address in AUDITED:
            found[address] = barriers(page)
    assert not any(found.values()), found


def test_the_browser_keeps_nothing(page: Page, three: RealCluster) -> None:
    sign_in(page, "admin", three.password)
    loaded(page, "Overview")
    assert page.evaluate("[localStorage.length, sessionStorage.length, document.cookie]") == [0, 0, ""]
    assert page.context.cookies() == []
    open_console(page, three.master.url)


def when_drawn(page: Page, selector: str, work: str) -> None:
    """Do some ``work`` with the element ``found`` as soon as it is in the page, before the page goes on."""
    page.evaluate(f"""new MutationObserver((changes, observer) => {{
        const found = document.querySelector({selector!r});
        if (!found) return;
        observer.disconnect();
        {work};
    }}).observe(document.body, {{ childList: true, subtree: true }})""")


def test_an_address_that_changes_while_a_page_is_drawn(page: Page, three: RealCluster) -> None:
    change = "history.replaceState(null, '', '#/agents'); dispatchEvent(new HashChangeEvent('hashchange'))"
    when_drawn(page, "#main", change)
    sign_in(page, "admin", three.password)
    loaded(page, three.master.name)
    expect(page.get_by_role("heading", level=1)).to_have_text("Agents")


def test_a_filter_may_be_typed_as_soon_as_it_is_there(page: Page, three: RealCluster) -> None:
    sign_in(page, "admin", three.password)
    loaded(page, "Overview")
    when_drawn(page, "input[name=q]", "found.value = 'id=000'")
    show(page, "agents")
    loaded(page, three.master.name)
    expect(page.get_by_label("Query")).to_have_value("id=000")


def test_filters_are_part_of_the_address(page: Page, three: RealCluster) -> None:
    sign_in(page, "admin", three.password)
    show(page, "agents")
    loaded(page, three.master.name)
    page.get_by_label("Query").fill("id!=000")
    page.get_by_label("Query").press("Enter")
    loaded(page, "Nothing matches these filters.")
    assert page.url.endswith("#/agents?q=id%21%3D000")


def test_an_own_rule_is_verified_before_it_is_stored(page: Page, three: RealCluster) -> None:
    sign_in(page, "admin", three.password)
    show(page, f"ruleset/rules/{RULES}?folder=etc%2Frules&new=1")
    text = page.get_by_label(f"etc/rules/{RULES}")
    save = page.get_by_role("button", name="Verify and save")
    text.fill(RULE.replace("</description>", ""))
    save.click()
    expect(page.get_by_role("main").get_by_role("alert")).to_contain_text("not well-formed")
    text.fill(RULE)
    save.click()
    expect(page.get_by_text("Stored, and sent to all nodes.")).to_be_visible()
    assert (three.master.paths.etc / "rules" / RULES).read_text() == RULE
    page.get_by_label("Log line").fill("Nov 22 10:00:00 host program: console-test-4711")
    page.get_by_role("button", name="Test").click()
    expect(page.get_by_text("The console knows this.").first).to_be_visible()
    page.get_by_role("button", name="Delete").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(page.get_by_role("heading", name="Ruleset")).to_be_visible()
    assert not (three.master.paths.etc / "rules" / RULES).exists()


def test_an_operation_is_tried_as_curl_would_do_it(page: Page, three: RealCluster) -> None:
    sign_in(page, "admin", three.password)
    show(page, "api/GET/agents")
    page.get_by_label("select", exact=True).fill("id,name")
    line = page.get_by_label("The request as a line for curl")
    expect(line).to_contain_text(f"'{three.master.url}/agents?select=id%2Cname'")
    page.get_by_role("button", name="Send").click()
    answer = page.get_by_role("region", name="Answer")
    expect(answer).to_contain_text("Status 200")
    expect(answer).to_contain_text('"id": "000"')


def test_an_alert_is_followed_found_and_leads_to_its_rule(page: Page, three: RealCluster) -> None:
    sign_in(page, "admin", three.password)
    show(page, "alerts?live=1")
    expect(page.get_by_text("Alerts appear here as they are raised.")).to_be_visible()
    three.call(three.workers[0], "/events", method="POST", json={"events": [LOGIN]})
    row = page.get_by_role("row").filter(has_text=ATTACKER)
    expect(row).to_have_count(1)
    page.get_by_role("button", name="Stop following").click()
    page.get_by_label("Search").fill(f'"{ATTACKER}"')
    page.get_by_label("Search").press("Enter")
    expect(page.get_by_text("1 alert", exact=True)).to_be_visible()
    assert barriers(page) == []
    row.get_by_role("link").first.click()
    expect(page.get_by_label("The event")).to_contain_text(LOGIN)
    assert barriers(page) == []
    page.get_by_role("region", name="Rule").get_by_role("link").first.click()
    loaded(page, "sshd")


def attention(page: Page) -> Locator:
    return page.get_by_role("region", name="What needs attention now")


def raise_alerts(three: RealCluster, count: int) -> None:
    """Of a user with the rights of root; answers when they are found."""
    three.call(three.workers[0], "/events", method="POST", json={"events": [NEW_ROOT] * count})
    found = f"/alerts?search={INTRUDER}"
    wait_until(lambda: three.call(three.master, found)["data"]["total_affected_items"] >= count)


def test_an_attack_is_seen_on_the_overview(page: Page, three: RealCluster) -> None:
    raise_alerts(three, TIMES)
    sign_in(page, "admin", three.password)
    attention(page).get_by_role("link", name=f"New user with the rights of root: {INTRUDER}").click()
    loaded(page, f"{TIMES} alerts")
    expect(page.get_by_label("Query")).to_have_value("rule.id=210402")
    page.get_by_role("button", name="Acknowledge all shown …").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Comment").fill("a drill")
    dialog.get_by_role("button", name="Acknowledge all shown").click()
    loaded(page, "No alert meets these filters.")
    page.get_by_role("search").get_by_label("Acknowledged").select_option("yes")
    loaded(page, "Acknowledged by admin: a drill")
    assert barriers(page) == []
    show(page, "")
    loaded(page, "Rules with most alerts")
    expect(attention(page).get_by_role("link", name=INTRUDER)).to_have_count(0)


def test_such_alerts_are_silenced_from_one_of_them(page: Page, three: RealCluster) -> None:
    raise_alerts(three, 1)
    sign_in(page, "admin", three.password)
    show(page, f"alerts?search={INTRUDER}")
    page.get_by_role("row").filter(has_text=INTRUDER).get_by_role("link").first.click()
    page.get_by_role("link", name="Silence such alerts …").click()
    expect(page.get_by_label("Rules (ids)")).to_have_value("210402")
    preview = page.get_by_role("region", name="What it would have covered")
    expect(preview.get_by_role("link", name="New user with the rights of root")).to_be_visible()
    assert barriers(page) == []
    page.get_by_label("Reason").fill("a drill of ours")
    page.get_by_role("button", name="Silence", exact=True).click()
    row = page.get_by_role("row").filter(has_text="a drill of ours")
    expect(row).to_contain_text("in force")
    assert barriers(page) == []
    row.get_by_role("button", name="End").click()
    page.get_by_role("dialog").get_by_role("button", name="End").click()
    expect(row).to_contain_text("ended")


def test_a_table_is_sorted_by_keyboard(page: Page, three: RealCluster) -> None:
    sign_in(page, "admin", three.password)
    show(page, "agents")
    heading = page.get_by_role("columnheader", name="Name")
    heading.get_by_role("button").focus()
    for order in ("ascending", "descending"):
        page.keyboard.press("Enter")
        expect(heading).to_have_attribute("aria-sort", order)
        expect(heading.get_by_role("button")).to_be_focused()


def test_a_narrow_screen_at_night(page: Page, three: RealCluster) -> None:
    page.set_viewport_size({"width": 400, "height": 800})
    page.emulate_media(color_scheme="dark")
    sign_in(page, "admin", three.password)
    for address in ("cluster/worker1", "alerts", "agents/000", "security/users/1", ""):
        show(page, address)
        loaded(page, PAGES.get(address, "Follow live"))
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), address
    assert barriers(page) == []


@pytest.fixture
def reader(three: RealCluster) -> Iterator[int]:
    """The id of a user who may read agents and nothing else."""
    call, master = three.call, three.master
    user = call(
        master, "/security/users", method="POST", json={"username": READER, "password": READER_PASSWORD}
    )["data"]["affected_items"][0]["id"]  # fmt: skip
    roles = call(master, f"/security/roles?search={AGENTS_READONLY}")["data"]["affected_items"]
    call(master, f"/security/users/{user}/roles?role_ids={roles[0]['id']}", method="POST")
    yield int(user)
    call(master, f"/security/users?user_ids={user}", method="DELETE")


def test_a_user_with_few_rights_sees_what_he_may(page: Page, reader: int) -> None:
    sign_in(page, READER, READER_PASSWORD)
    menu = page.get_by_role("navigation", name="Pages of the console")
    expect(menu.get_by_role("link", name="Agents")).to_be_visible()
    assert menu.get_by_role("link").all_inner_texts() == ["Overview", "Alerts", "Agents", "Groups", "Security", "API"]
    loaded(page, "What needs attention now")
    expect(page.get_by_role("main").get_by_role("alert")).to_have_count(0)
    show(page, "security/mine")
    row = page.get_by_role("row").filter(has_text="agent:read").first
    expect(row).to_contain_text(AGENTS_READONLY)
    show(page, f"security/users/{reader}")
    loaded(page, "You may not read users, roles and policies (security:read).")
    show(page, "cluster")
    loaded(page, "There is no node that you may see")


@pytest.fixture
def lead(three: RealCluster, reader: int) -> Iterator[str]:
    """A role that is given to those of a team, and denies the reader one agent; its name."""
    call, master, name = three.call, three.master, "console-lead"

    def made(kind: str, **body: object) -> int:
        answer = call(master, f"/security/{kind}", method="POST", json={"name": name, **body})
        return int(answer["data"]["affected_items"][0]["id"])

    body = {"actions": ["agent:read"], "resources": ["agent:id:007"], "effect": "deny"}
    rule = {"MATCH": {"team": "lead"}}
    found = {"policy": made("policies", policy=body), "role": made("roles"), "rule": made("rules", rule=rule)}
    for kind, owned in (("policies", "policy"), ("rules", "rule")):
        call(master, f"/security/roles/{found['role']}/{kind}?{owned}_ids={found[owned]}", method="POST")
    call(master, f"/security/users/{reader}/roles?role_ids={found['role']}", method="POST")
    yield name
    for kind, owned in (("policies", "policy"), ("roles", "role"), ("rules", "rule")):
        call(master, f"/security/{kind}?{owned}_ids={found[owned]}", method="DELETE")


def test_what_a_user_may_do_and_why(page: Page, three: RealCluster, reader: int, lead: str) -> None:
    sign_in(page, "admin", three.password)
    show(page, f"security/users/{reader}")
    loaded(page, f"What {READER} may do")
    rows = page.get_by_role("region", name="permissions").get_by_role("row").filter(has_text="agent:read")
    denied = rows.filter(has_text="agent:id:007")
    expect(denied).to_contain_text(f"deny{lead} no. 1{lead} no. 2")
    expect(rows.filter(has_text="agent:id:*")).to_contain_text(f"{AGENTS_READONLY} no. 1")
    page.get_by_label("Query").fill("effect=deny")
    page.get_by_label("Query").press("Enter")
    expect(rows).to_have_count(1)
    assert barriers(page) == []

    expect(page.get_by_label("Signed in with the context")).to_have_count(0)
    show(page, f"security/users/{reader}?q=effect%3Ddeny&context=%7B%22team%22%3A%22lead%22%7D")
    refusal = page.get_by_role("main").get_by_role("alert")
    expect(refusal).to_contain_text("This user may not log in with an authorization context")
    assert barriers(page) == []
    page.get_by_role("button", name="Allow contexts").click()
    page.get_by_role("dialog").get_by_role("button", name="Allow contexts").click()
    expect(page.get_by_role("button", name="Forbid contexts")).to_be_visible()
    expect(refusal).to_have_count(0)
    context = page.get_by_label("Signed in with the context")
    context.fill("no JSON")
    context.press("Enter")
    expect(refusal).to_contain_text("not a JSON object")
    context.fill(json.dumps({"team": "lead"}))
    context.press("Enter")
    expect(denied).to_contain_text(f"deny{lead} no. 1{lead} no. 1{lead}")
    assert barriers(page) == []
    context.fill(json.dumps({"team": "other"}))
    context.press("Enter")
    loaded(page, "Nothing matches these filters.")
    page.get_by_label("Query").fill("")
    page.get_by_label("Query").press("Enter")
    loaded(page, "Nothing is allowed or denied by a role: everything is denied.")


def test_a_session_that_was_revoked_goes_on_with_the_password(page: Page, three: RealCluster) -> None:
    sign_in(page, "admin", three.password)
    show(page, "agents")
    loaded(page, three.master.name)
    three.call(three.master, "/security/user/revoke", method="PUT")
    show(page, "agents/000")
    end = page.get_by_role("form", name="The end of the session")
    expect(end).to_contain_text("The session has ended")
    end.get_by_label("Password").fill(three.password)
    end.get_by_role("button", name="Stay signed in").click()
    expect(end).to_have_count(0)
    page.get_by_role("button", name="Try again").click()
    loaded(page, "Summary")


def test_the_end_of_a_session_is_announced_before_it_comes(page: Page, three: RealCluster) -> None:
    call, master = three.call, three.master
    call(master, "/security/config", method="PUT", json={"auth_token_exp_timeout": 55})
    try:
        sign_in(page, "admin", three.password)
        end = page.get_by_role("form", name="The end of the session")
        expect(end).to_contain_text("The session ends soon")
        assert barriers(page) == []
    finally:
        call(master, "/security/config", method="DELETE")
    end.get_by_label("Password").fill(three.password)
    end.get_by_role("button", name="Stay signed in").click()
    expect(end).to_have_count(0)


def test_a_node_that_goes_away_is_named_until_it_is_back(browser: Browser, three: RealCluster) -> None:
    """A worker is killed while one looks at the overview of the master, and at the worker's own console."""
    master, worker = three.master, three.workers[0]
    away = f"The node {worker.name} is away"
    with console(browser, master) as page, console(browser, worker) as own:
        for each in (page, own):
            each.clock.install()
            sign_in(each, "admin", three.password)
            loaded(each, "Rules with most alerts")

        worker.kill_everything()
        wait_until(lambda: worker.name in lost(three), what="the master to miss the worker")
        pass_time(page)
        expect(attention(page).get_by_role("listitem").filter(has_text=away)).to_contain_text("secmon start")
        attention(page).get_by_role("link", name=away).click()
        expect(page.get_by_role("alert").filter(has_text=away)).to_contain_text("secmon start")
        expect(page.get_by_text("Some nodes did not answer").first).to_be_visible()
        assert barriers(page) == []
        pass_time(own)
        alert = own.get_by_role("main").get_by_role("alert")
        expect(alert).to_contain_text("The node does not answer")
        show(own, "groups")
        assert barriers(own) == []

        three.bring_back()
        validation = "/cluster/configuration/validation"
        wait_until(lambda: "dapi_errors" not in three.call(master, validation), what="the worker's analysis")
        pass_time(page)
        expect(page.get_by_text(away)).to_have_count(0)
        expect(page.get_by_text("Some nodes did not answer")).to_have_count(0)
        loaded(own, "default")
        expect(alert).to_have_count(0)


def lost(three: RealCluster) -> set[str]:
    """Names of the nodes that the master misses."""
    items = three.call(three.master, "/cluster/healthcheck")["data"]["affected_items"]
    return {node["name"] for item in items for node in item.get("lost", ())}


def pass_time(page: Page) -> None:
    """Let so much time pass on the page that all its parts ask the node again."""
    page.clock.fast_forward(31_000)
