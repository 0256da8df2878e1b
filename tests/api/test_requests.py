"""Status, title, code and detail of every kind of refusal, and the shape of what succeeds (conventions.md 1, 2)."""

import base64
import gzip
import json
import re

import httpx
import pytest

from secmon.api.responses import SECURITY_HEADERS
from secmon.common.clock import SystemClock
from secmon.config.api import Intervals, Logs
from secmon.security.credentials import context_hash
from secmon.security.store import schema
from tests.api.conftest import LOGIN, Serve, Toy, expect_problem
from tests.api.toys import PASSWORD, USER, ToyControl, ToyLease, Wanted, api_config
from tests.manual_clock import ManualClock

pytestmark = pytest.mark.anyio

JSON = {"Content-Type": "application/json"}


# Success


async def test_envelope_and_headers(toy: Toy) -> None:
    answer = await toy.client.get("/items", params={"ids": "1,7"})
    assert answer.text == (
        '{"data": {"affected_items": [{"id": 1, "name": "alpha"}], "total_affected_items": 1, "total_failed_items": 1, '
        '"failed_items": [{"error": {"code": 1730, "message": "The node does not exist or is not connected", '
        '"remediation": "List the nodes with GET /cluster/nodes"}, "id": ["7"]}]}, "message": "Some read", "error": 2}'
    )
    sent = [(name.lower(), value) for name, value in answer.headers.raw]
    assert sent[: len(SECURITY_HEADERS)] == list(SECURITY_HEADERS)
    assert {"server", "date", "allow", "www-authenticate", "retry-after"}.isdisjoint(answer.headers)


async def test_pretty_indents_by_three(toy: Toy) -> None:
    answer = await toy.client.get("/", params={"pretty": "TRUE"})
    assert answer.text == json.dumps({"data": {"title": "toy", "who": USER}, "error": 0}, indent=3)


async def test_text_is_ascii(toy: Toy) -> None:
    answer = await toy.client.put("/items", json={"name": "a.b"})
    assert answer.content.isascii()
    answer = await toy.client.get("/items/%C3%A9")
    assert answer.content.isascii()


async def test_trailing_slash(toy: Toy) -> None:
    assert (await toy.client.get("/items/")).json() == (await toy.client.get("/items")).json()


async def test_missing_nodes_stand_beside_the_answer(toy: Toy) -> None:
    body = (await toy.client.get("/partial")).json()
    assert list(body) == ["data", "message", "dapi_errors", "error"]
    assert body["dapi_errors"] == {"there": {"error": "not connected"}}


async def test_the_call(toy: Toy) -> None:
    await toy.client.get("/items", params={"limit": "5", "select": "id"})
    call = toy.router.calls[-1]
    assert call.operation.name == "GET /items"
    assert call.params == Wanted(limit=5, select=["id"])
    assert call.identity.user == USER
    assert call.client == "127.0.0.1"
    assert call.deadline == toy.node.clock.monotonic() + 10
    assert len(call.request_id) == 32
    await toy.client.get("/items", params={"wait_for_complete": "true"})
    assert toy.router.calls[-1].deadline == toy.node.clock.monotonic() + 3600
    assert toy.router.calls[-1].request_id != call.request_id


# Login


async def test_login_raw_and_deprecated(toy: Toy) -> None:
    raw = await toy.client.post(LOGIN, params={"raw": "true"}, auth=(USER, PASSWORD))
    assert raw.headers["content-type"] == "text/plain; charset=utf-8"
    assert raw.text.count(".") == 2
    assert "deprecated" not in raw.headers
    old = await toy.client.get(LOGIN, auth=(USER, PASSWORD))
    assert old.headers["deprecated"] == "true"
    assert old.headers["link"] == '</openapi.json#/paths/~1security~1user~1authenticate/get>; rel="Deprecated"'


@pytest.mark.parametrize(
    "header",
    [
        None,
        "Bearer x",
        "Basic",
        "Basic !!!",
        "Basic " + base64.b64encode(b"no colon").decode(),
        "Basic " + base64.b64encode(b"nobody:Sesame-Open-1").decode(),
        "Basic " + base64.b64encode(b"admin:wrong").decode(),
        "Basic " + base64.b64encode(b"\0:\xff").decode(),
    ],
)
async def test_wrong_credentials(toy: Toy, header: str | None) -> None:
    del toy.client.headers["Authorization"]
    headers = {"Authorization": header} if header else {}
    answer = await toy.client.post(LOGIN, params={"raw": "maybe"}, headers=headers)
    expect_problem(answer, 401, "Unauthorized", "Invalid credentials", error=None, remediation=None)


async def test_credentials_come_before_the_query(toy: Toy) -> None:
    answer = await toy.client.post(LOGIN, params={"raw": "maybe"}, auth=(USER, PASSWORD))
    expect_problem(answer, 400, "Bad Request", "Wrong type, expected 'boolean' for query parameter 'raw'")


async def test_run_as_body(toy: Toy) -> None:
    path = f"{LOGIN}/run_as"
    good = await toy.client.post(path, auth=(USER, PASSWORD), content=b'{"name": "x"}')  # any Content-Type
    assert good.status_code == 200
    for body in (b"", b"[]", b"{", b"null", b"\xff", b"[" * 100_000):
        expect_problem(await toy.client.post(path, auth=(USER, PASSWORD), content=body), 400, "Bad Request")


async def test_run_as_login_is_logged_with_the_hash_of_its_context(toy: Toy) -> None:
    await toy.client.post(f"{LOGIN}/run_as", auth=(USER, PASSWORD), content=b'{"username": "elastic"}')
    hashed = context_hash({"username": "elastic"})
    assert f'INFO: {USER} ({hashed}) 127.0.0.1 "POST {LOGIN}/run_as"' in toy.log().splitlines()[-1]


# Tokens


@pytest.mark.parametrize("header", [None, "Basic eDp5", "Bearer", "Bearer a b", "Token x"])
async def test_no_token(toy: Toy, header: str | None) -> None:
    del toy.client.headers["Authorization"]
    answer = await toy.client.get("/items", headers={"Authorization": header} if header else {})
    expect_problem(answer, 401, "Unauthorized", "No authorization token provided", error=None)


async def test_bad_tokens(toy: Toy) -> None:
    token = await toy.token()
    for bad in (token[:-4] + "AAAA", "x", "a.b.c", token + "\xff", "." * 60_000):
        del toy.client.headers["Authorization"]
        answer = await toy.client.get("/", headers={b"Authorization": b"Bearer " + bad[:8000].encode("latin-1")})
        expect_problem(answer, 401, "Unauthorized", "Invalid token", error=None)
        toy.client.headers["Authorization"] = "x"


async def test_scheme_is_case_insensitive(toy: Toy) -> None:
    token = await toy.token()
    assert (await toy.client.get("/", headers={"Authorization": f"bEARER \t {token}"})).status_code == 200


async def test_token_expires(serve: Serve) -> None:
    clock = ManualClock()
    async with serve(clock=clock) as toy:
        await toy.log_in()
        clock.advance(899)
        assert (await toy.client.get("/")).status_code == 200
        clock.advance(1)
        expect_problem(await toy.client.get("/"), 401, "Unauthorized", "Invalid token")
        assert "unknown_user 127.0.0.1" in toy.log().splitlines()[-1]


async def test_lease_run_out(toy: Toy) -> None:
    assert isinstance(toy.node.services.lease, ToyLease)
    toy.node.services.lease.seconds = 0
    answer = await toy.client.get("/")
    expect_problem(answer, 503, "Service Unavailable", error=3043, dapi_errors=None)
    assert (await toy.client.post(LOGIN, auth=(USER, PASSWORD))).status_code == 503
    assert "refuses" not in answer.text
    toy.node.services.lease.refused = 3025
    answer = await toy.client.get("/")
    expect_problem(answer, 503, "Service Unavailable", error=3043)
    assert answer.json()["detail"].endswith("the master refuses it: 3025: The proof of the cluster key is wrong")


# Validation


@pytest.mark.parametrize(
    ("query", "detail"),
    [
        ("foo=1&bar=2", "Extra query parameter(s) foo, bar not in spec"),
        ("limit=abc", "Wrong type, expected 'integer' for query parameter 'limit'"),
        ("pretty=yes", "Wrong type, expected 'boolean' for query parameter 'pretty'"),
        ("Limit=1", "Extra query parameter(s) Limit not in spec"),
        ("limit=0", None),
        ("limit=100001", None),
        ("offset=-1", None),
        ("select=name,", None),
        ("name=a+b", None),
        ("name=a%00", None),
        ("name=%ff", "The query string is not UTF-8"),
        ("name=a%2Fb", None),
        ("status=maybe", None),
        ("search=a;b", None),
    ],
)
async def test_query_faults(toy: Toy, query: str, detail: str | None) -> None:
    answer = (
        await toy.client.get(f"/items?{query}") if query != "name=a%252Fb" else await toy.client.get("/items?name=/")
    )
    expect_problem(answer, 400, "Bad Request", detail, error=None)


@pytest.mark.parametrize(
    "query", ["pretty=", "foo=", "limit=&limit=2", "status=ON", "q=name=alpha;id=1", "ids=1&ids=2", "&&"]
)
async def test_queries_taken(toy: Toy, query: str) -> None:
    answer = await toy.client.get(f"/items?{query}")
    assert answer.status_code == 200, answer.text


async def test_operations_without_parameters_ignore_the_query(toy: Toy) -> None:
    assert (await toy.client.delete(f"{LOGIN}?anything=1")).json() == {"message": "Good bye", "error": 0}


async def test_required_parameter(toy: Toy) -> None:
    for query in ("", "?code="):
        answer = await toy.client.get(f"/fail{query}")
        expect_problem(answer, 400, "Bad Request", "Missing query parameter 'code'", error=None)


@pytest.mark.parametrize("path", ["/items/a%00", "/items/a%20b", "/items/a%2Fb", "/items/%ff", "/%ff"])
async def test_path_faults(toy: Toy, path: str) -> None:
    expect_problem(await toy.client.get(path), 400, "Bad Request", error=None)


async def test_body_faults(toy: Toy) -> None:
    async def put(body: bytes, **headers: str) -> httpx.Response:
        return await toy.client.put("/items", content=body, headers=headers or JSON)

    assert (await put(b'{"name": "x"}')).status_code == 200
    assert (await put(b'{"name": "x"}', **{"Content-Type": "Application/JSON; charset=utf-8"})).status_code == 200
    expect_problem(await put(b""), 400, "Bad Request", "'' is not of type 'object'")
    expect_problem(await put(b"a=b"), 400, "Bad Request", "'a=b' is not of type 'object'")
    expect_problem(await put(b"\xff\xfe"), 400, "Bad Request")
    expect_problem(await put(b'{"name": "\\u0000"}'), 400, "Bad Request")
    expect_problem(await put(b'{"name": "\\ud800"}'), 400, "Bad Request")
    expect_problem(await put(b'{"name": "x", "zzz": 1}'), 400, "Bad Request", "Invalid field found {'zzz'}")
    expect_problem(await put(b'{"count": 1}'), 400, "Bad Request", "'name' is a required property")
    expect_problem(await put(b'{"name": "a b"}'), 400, "Bad Request", "'a b' is not a 'names' - 'name'")
    expect_problem(await put(b'{"name": 1}'), 400, "Bad Request", "1 is not of type 'string' - 'name'")
    expect_problem(await put(b"null"), 400, "Bad Request", "Request body is not valid JSON")
    expect_problem(await put(b"[" * 100_000), 400, "Bad Request")
    expect_problem(await put(b'{"name": "x"}', **{"Content-Type": "text/plain"}), 406, "Not Acceptable", error=6002)
    # A broken body comes before the type, unknown members after it.
    expect_problem(await put(b"{", **{"Content-Type": "text/plain"}), 400, "Bad Request")
    expect_problem(
        await put(b'{"name": "x", "zzz": 1}', **{"Content-Type": "text/plain"}), 406, "Not Acceptable", error=6002
    )
    expect_problem(await put(b"null", **{"Content-Type": "text/plain"}), 415, "Unsupported Media Type", error=None)


async def test_compressed_bodies_are_not_unpacked(toy: Toy) -> None:
    body = gzip.compress(b'{"name": "x"}')
    answer = await toy.client.put("/items", content=body, headers=JSON | {"Content-Encoding": "gzip"})
    expect_problem(answer, 400, "Bad Request")


async def test_uploads_take_bytes_as_they_are(toy: Toy) -> None:
    octets = {"Content-Type": "application/octet-stream"}
    answer = await toy.client.put("/files/x", content=b"\0\xff", headers=octets)
    assert answer.json()["data"]["affected_items"] == [2]
    assert (await toy.client.put("/files/x", content=b"12345")).status_code == 200  # no header: octets
    expect_problem(await toy.client.put("/files/x", content=b"1", headers=JSON), 406, "Not Acceptable", error=6002)


async def test_get_ignores_its_body(toy: Toy) -> None:
    assert (await toy.client.request("GET", "/items", content=b"\xff{")).status_code == 200


# Paths and methods


@pytest.mark.parametrize("method", ["PATCH", "OPTIONS", "POST", "DELETE", "TRACE"])
async def test_405(toy: Toy, method: str) -> None:
    del toy.client.headers["Authorization"]
    answer = await toy.client.request(method, "/items")
    expect_problem(answer, 405, "Method Not Allowed", "405: Method Not Allowed", error=None)
    assert "allow" not in answer.headers


async def test_head_is_405_without_a_body(toy: Toy) -> None:
    answer = await toy.client.head("/items")
    assert (answer.status_code, answer.content) == (405, b"")
    assert (await toy.client.get("/items")).status_code == 200


async def test_404(toy: Toy) -> None:
    del toy.client.headers["Authorization"]
    expect_problem(await toy.client.get("/nothing/here"), 404, "Not Found", "404: Not Found", error=None)


async def test_doubled_slashes(toy: Toy) -> None:
    answer = await toy.client.get(f"{toy.client.base_url}//items///special?pretty=true")
    assert (answer.status_code, answer.headers["location"]) == (308, "/items/special?pretty=true")
    assert answer.headers["content-type"].startswith("text/plain")
    evil = await toy.client.get(f"{toy.client.base_url}//evil.example/")
    assert evil.headers["location"] == "/evil.example/"


async def test_settings_of_the_node(toy: Toy) -> None:
    expect_problem(await toy.client.get("/cluster/toys"), 400, "Bad Request", error=3013, dapi_errors=None)
    expect_problem(await toy.client.get("/experimental/toys"), 404, "Resource Not Found", error=1122, dapi_errors=None)
    answer = await toy.client.get("/experimental/toys?foo=1")  # parameters first
    expect_problem(answer, 400, "Bad Request", error=None)


async def test_experimental_features_on(serve: Serve) -> None:
    async with serve(api_config(experimental_features=True)) as toy:
        await toy.log_in()
        assert (await toy.client.get("/experimental/toys")).json()["message"] == "tried"


# Errors of the distribution layer


async def test_permission_denied(toy: Toy) -> None:
    answer = await toy.client.get("/forbidden")
    expect_problem(answer, 403, "Permission Denied", "Permission denied: Resource type: *:*", error=4000)
    assert answer.json()["remediation"]
    assert list(answer.json()["dapi_errors"].values()) == [{"error": "Permission denied: Resource type: *:*"}]


@pytest.mark.parametrize(
    ("code", "status", "title", "logfile"),
    [
        (1407, 400, "Bad Request", False),
        (1730, 404, "Resource Not Found", False),
        (1901, 500, "Secmon Internal Error", True),
        (3021, 500, "Secmon Internal Error", True),
        (3023, 500, "Secmon Cluster Error", True),
        (3043, 503, "Service Unavailable", True),
    ],
)
async def test_catalogued_errors(toy: Toy, code: int, status: int, title: str, logfile: bool) -> None:
    answer = await toy.client.get("/fail", params={"code": code})
    body = answer.json()
    expected = {"error": body["detail"]} | ({"logfile": "SECMON_HOME/logs/api.log"} if logfile else {})
    expect_problem(answer, status, title, error=code, dapi_errors={"manager": expected})


async def test_front_codes_have_no_dapi_errors(toy: Toy) -> None:
    for code in (902, 3013):
        assert "dapi_errors" not in (await toy.client.get("/fail", params={"code": code})).json()


async def test_unforeseen_fault(serve: Serve) -> None:
    async with serve(api_config(logs=Logs(format="plain,json"))) as toy:
        await toy.log_in()
        answer = await toy.client.get("/fail", params={"code": 0})
        expect_problem(answer, 500, "Secmon Internal Error", error=1000)
        assert answer.json()["dapi_errors"]["manager"]["logfile"] == "SECMON_HOME/logs/api.json"
        assert "secret" not in answer.text
        assert "Traceback" not in answer.text


def _causes(toy: Toy) -> list[str]:
    """The lines beside those of requests, from their level on, ids of requests cut out."""
    lines = [line[20:] for line in toy.log().splitlines() if " with parameters " not in line]
    return [re.sub(r"Request [0-9a-f]{32} ", "Request ID ", line) for line in lines]


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/fail?code=3021", "failed: 3021: The request did not finish in time (manager)"),
        ("/fail?code=3018&node=w1", "failed: 3018: The request could not be sent to the node (w1: over there)"),
        ("/fail?code=0", "failed: 1000: Unexpected internal error (manager)"),
    ],
)
async def test_the_cause_of_a_failure_is_logged_with_the_id_of_the_request(toy: Toy, path: str, said: str) -> None:
    assert (await toy.client.get(path)).status_code == 500
    assert _causes(toy) == [f"ERROR: Request ID (GET /fail of {USER} from 127.0.0.1) {said}"]
    assert toy.router.calls[-1].request_id in toy.log()
    assert toy.log().splitlines()[-1].endswith(": 500")  # the request's own line is as always


async def test_the_cause_of_an_incomplete_answer_is_logged(toy: Toy) -> None:
    assert (await toy.client.get("/partial")).status_code == 200
    title = f"Request ID (GET /partial of {USER} from 127.0.0.1)"
    assert _causes(toy) == [f"WARNING: {title} is answered without some nodes: there: not connected"]


async def test_the_cause_of_a_refusal_before_the_call(toy: Toy) -> None:
    assert isinstance(toy.node.services.lease, ToyLease)
    toy.node.services.lease.seconds = 0
    assert (await toy.client.get("/items")).status_code == 503
    (line,) = _causes(toy)
    assert line.startswith("WARNING: Request GET /items of unknown_user from 127.0.0.1 failed: 3043: This node has not")


async def test_mistakes_of_clients_have_no_second_line(toy: Toy) -> None:
    for path in ("/items?limit=0", "/nothing", "/fail?code=1730"):
        assert (await toy.client.get(path)).status_code in (400, 404)
    assert _causes(toy) == []


async def test_who_was_refused_early_is_logged_when_the_token_is_known(serve: Serve) -> None:
    """Found among the verified ones only: what is not verified is never shown as a name."""
    async with serve(api_config(max_upload_size=100)) as toy:
        known = f"Bearer {await toy.token()}"
        forged = f"{known[:-4]}AAAA"
        headers = {"Authorization": known}
        for user in ("unknown_user", USER):  # known from the second time on
            assert (await toy.client.put("/items", headers=headers, content=b"x" * 100)).status_code == 413
            assert f'INFO: {user} 127.0.0.1 "PUT /items"' in toy.log().splitlines()[-1]
            assert (await toy.client.get("/", headers=headers)).status_code == 200
        await toy.client.put("/items", headers={"Authorization": forged}, content=b"x" * 100)
        assert 'INFO: unknown_user 127.0.0.1 "PUT /items"' in toy.log().splitlines()[-1]


async def test_node_names_are_hidden_from_who_may_not_read_nodes(toy: Toy) -> None:
    with toy.node.security.write() as change:
        for row in change.select(schema.user_roles):
            change.delete(schema.user_roles, row["user_id"], row["role_id"])
    await toy.log_in()
    answer = await toy.client.get("/fail", params={"code": 3018, "node": "w1"})
    assert list(answer.json()["dapi_errors"]) == ["unknown-node"]
    assert list((await toy.client.get("/partial")).json()["dapi_errors"]) == ["unknown-node"]


async def test_daemons_not_ready(toy: Toy) -> None:
    assert isinstance(toy.node.services.control, ToyControl)
    toy.node.services.control.states = {"secmon-analysisd": "failed"}
    expect_problem(await toy.client.get("/items"), 400, "Bad Request", error=1017)
    assert (await toy.client.get("/")).status_code == 200


async def test_time_limit(serve: Serve, caplog: pytest.LogCaptureFixture) -> None:
    async with serve(api_config(intervals=Intervals(request_timeout=1)), clock=SystemClock()) as toy:
        await toy.log_in()
        answer = await toy.client.get("/wait")
        expect_problem(answer, 500, "Secmon Internal Error", error=3021)
        assert toy.latch.cancelled.is_set()
        # The node where it happened names the request too: that is how one gets there from the log of the API.
        request_id = toy.router.calls[-1].request_id
        assert f"request {request_id}: GET /wait did not finish in time" in caplog.messages
