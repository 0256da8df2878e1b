"""``secmon import osv``: from files, folders and addresses, and what is refused."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from secmon.common.paths import Paths
from tests.cli.runner import run
from tests.knowledge.vulnerabilities.records import archive, encoded, fixed
from tests.offenders import Offenders

DEMO = fixed("DSA-1", "Debian:12", "demo", "2", modified="2099-01-01T00:00:00Z")
NEWER = fixed("DSA-2", "Debian:12", "other", "2", modified="2099-01-03T00:00:00Z")


@pytest.fixture
def paths(master: Path) -> Paths:
    return Paths(master)


@contextmanager
def served(pages: dict[str, bytes]) -> Iterator[str]:
    """The address of a server with these pages."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = pages.get(self.path)
            self.send_response(404 if body is None else 200)
            self.send_header("Content-Length", str(len(body or b"")))
            self.end_headers()
            self.wfile.write(body or b"")

        def log_message(self, *_: object) -> None:
            """Nothing on the terminal."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_import_and_rollback(paths: Paths, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(encoded(DEMO))
    done = run("import", "osv", tmp_path, "--root", paths.root)
    assert (done.exit_code, done.stdout) == (
        0, "Debian:12: 1 records\nRead 1 records, 0 of them of no ecosystem that is used.\n",
    )  # fmt: skip
    again = run("import", "osv", tmp_path / "a.json", "--root", paths.root)
    assert "none is newer" in again.stdout
    (tmp_path / "all.zip").write_bytes(archive({"b.json": encoded(NEWER)}))
    arguments = (tmp_path / "all.zip", "--full", "--ecosystem", "Debian", "--root", paths.root, "--json")
    done = run("import", "osv", *arguments)
    assert json.loads(done.stdout)["data"] == {"records": 1, "unused": 0, "changed": {"Debian:12": 1}}
    done = run("import", "osv", "--rollback", "--root", paths.root)
    assert done.stdout == "In force as before the last import: debian-12.db\n"


def test_the_changes_of_a_feed_are_fetched(paths: Paths) -> None:
    pages = {"/Debian/all.zip": archive({"DSA-1.json": encoded(DEMO)}), "/Debian/DSA-2.json": encoded(NEWER)}
    with served(pages) as address:
        changes = f"{address}/Debian/modified_id.csv"
        pages["/Debian/modified_id.csv"] = b"2099-01-01T00:00:00Z,DSA-1\n"
        early = run("import", "osv", changes, "--root", paths.root)
        assert (early.exit_code, "import the whole feed" in early.output) == (1, True)
        assert run("import", "osv", f"{address}/Debian/all.zip", "--root", paths.root).exit_code == 0
        assert "no record is newer" in run("import", "osv", changes, "--root", paths.root).output
        pages["/Debian/modified_id.csv"] = b"2099-01-03T00:00:00Z,DSA-2\n2099-01-01T00:00:00Z,DSA-1\n"
        assert "Debian:12: 2 records" in run("import", "osv", changes, "--root", paths.root).output
        pages["/Debian/modified_id.csv"] = b"2099-01-04T00:00:00Z,DSA-3\n"
        lost = run("import", "osv", changes, "--root", paths.root)
        assert lost.exit_code == 1
        assert "DSA-3.json: the server answers with status 404; nothing was changed" in lost.output
        pages["/Debian/modified_id.csv"] = b"2099-01-04T00:00:00Z,../../secret\n"
        assert "line 1 is not a time and an id" in run("import", "osv", changes, "--root", paths.root).output


def test_what_is_refused_changes_nothing(paths: Paths, tmp_path: Path) -> None:
    file = tmp_path / "feed.json"
    file.write_bytes(b"{}")
    with Offenders() as offenders:
        for arguments, status, text in (
            ((file,), 1, "nothing was changed"),
            ((tmp_path / "none",), 1, "No such file"),
            (("http://127.0.0.1:1/all.zip",), 1, "nothing was changed"),
            (("ftp://127.0.0.1/x",), 1, "is no address"),
            (("--rollback",), 1, "nothing was imported"),
            ((), 2, "or --rollback"),
            ((file, "--rollback"), 2, "or --rollback"),
        ):
            with offenders.row(arguments):
                done = run("import", "osv", *arguments, "--root", paths.root)
                assert (done.exit_code, text in done.output) == (status, True), done.output
    assert not list(paths.advisories.glob("*"))


def test_a_switched_off_detection_is_named(paths: Paths, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(encoded(DEMO))
    text = paths.main_config.read_text()
    section = "<vulnerability-detector><enabled>no</enabled></vulnerability-detector></ossec_config>"
    paths.main_config.write_text(text.replace("</ossec_config>", section, 1))
    done = run("import", "osv", tmp_path / "a.json", "--root", paths.root)
    assert (done.exit_code, "switched off" in done.stderr) == (0, True)
