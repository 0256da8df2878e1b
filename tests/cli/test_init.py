"""``secmon init``."""

import re
import stat
from pathlib import Path

import pytest

from secmon.common.paths import Paths
from secmon.config.main import load_main_config
from secmon.config.options import load_internal_options
from tests.cli.runner import KEY, MASTER, PASSWORD, WORKER, can_log_in, run


def test_init_makes_a_master(master: Path) -> None:
    cluster = load_main_config(Paths(master)).cluster
    assert (cluster.node_type, cluster.node_name, cluster.master) == ("master", "m", "127.0.0.1")
    assert re.fullmatch("[A-Za-z0-9]{32}", cluster.key)


def test_init_prints_passwords_that_work_and_not_the_key(root: Path) -> None:
    done = run("init", str(root / "n"), "--type", "master", "--master", "127.0.0.1")
    passwords = dict(re.findall(r"^  (\w+) +(\S+)$", done.output, re.M))
    assert set(passwords) == {"admin", "dashboard"}
    assert all(can_log_in(root / "n", user, password) for user, password in passwords.items())
    assert load_main_config(Paths(root / "n")).cluster.key not in done.output


def test_init_alone(root: Path) -> None:
    assert run("init", str(root / "n")).exit_code == 0
    assert load_main_config(Paths(root / "n")).cluster.disabled


def test_init_worker_with_key_file(root: Path) -> None:
    (root / "key").write_text(f"{KEY}\n")
    done = run("init", str(root / "n"), *WORKER, "--key-file", str(root / "key"))
    assert done.exit_code == 0, done.output
    assert "assword" not in done.output
    assert KEY not in done.output
    assert load_main_config(Paths(root / "n")).cluster.key == KEY
    assert stat.S_IMODE((root / "n/etc/ossec.conf").stat().st_mode) == 0o660


def test_init_with_the_password_of_the_administrator_from_a_file(root: Path) -> None:
    file = root / "password"
    file.write_text(f"{PASSWORD}\n")
    file.chmod(0o600)
    done = run("init", str(root / "n"), *MASTER, "--admin-password-file", str(file))
    assert done.exit_code == 0, done.output
    assert PASSWORD not in done.output
    assert "Warning" not in done.output
    assert can_log_in(root / "n", "admin", PASSWORD)
    passwords = dict(re.findall(r"^  (\w+) +(\S+)$", done.output, re.M))
    assert list(passwords) == ["dashboard"]
    assert can_log_in(root / "n", "dashboard", passwords["dashboard"])


@pytest.mark.parametrize(("password", "said"), [("Sh0rt-", "length"), ("no-capital-letter-1", "at least one")])
def test_init_refuses_a_weak_password_and_makes_nothing(root: Path, password: str, said: str) -> None:
    (root / "password").write_text(password)
    done = run("init", str(root / "n"), *MASTER, "--admin-password-file", str(root / "password"))
    assert done.exit_code == 1
    assert said in done.output
    assert password not in done.output
    assert not (root / "n").exists()


def test_init_worker_has_no_password_of_its_own(root: Path) -> None:
    (root / "password").write_text(PASSWORD)
    done = run("init", str(root / "n"), *WORKER, "--admin-password-file", str(root / "password"), text=f"{KEY}\n")
    assert done.exit_code == 2
    assert "belongs to the master" in done.output
    assert not (root / "n").exists()


@pytest.mark.parametrize("option", ["--key-file", "--admin-password-file"])
def test_init_warns_of_a_secret_that_everybody_may_read(root: Path, option: str) -> None:
    file = root / "secret"
    file.write_text(KEY.replace("kkkk", "Kk1-") if option == "--admin-password-file" else KEY)
    file.chmod(0o644)
    done = run("init", str(root / "n"), *MASTER, option, str(file))
    assert done.exit_code == 0, done.output
    assert f"Warning: every user of this host may read {file}" in done.stderr


def test_init_of_a_worker_without_a_key_and_a_terminal_says_what_to_do(root: Path) -> None:
    done = run("init", str(root / "n"), *WORKER, text="")
    assert done.exit_code == 2
    assert done.output.endswith(
        "Error: a worker needs the cluster key of its master: give --key-file, or use a terminal\n"
    )
    assert not (root / "n").exists()


def test_init_with_a_port_of_its_own_for_peers(root: Path) -> None:
    done = run("init", str(root / "n"), *WORKER, "--peer-port", "1520", "--api-port", "1516", text=f"{KEY}\n")
    assert done.exit_code == 0, done.output
    assert load_internal_options(Paths(root / "n")).get("clusterd.peer_port") == 1520
    assert load_main_config(Paths(root / "n")).cluster.port == 1516
    assert run("config", "check", "--root", str(root / "n")).exit_code == 0


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (("--api-port", "1516"), "cluster.port"),
        (("--api-port", "1517"), "cluster.port + 1"),
        (("--peer-port", "55000"), "clusterd.peer_port"),
    ],
)
def test_init_refuses_ports_that_are_the_same(root: Path, options: tuple[str, ...], named: str) -> None:
    done = run("init", str(root / "n"), *MASTER, *options)
    assert done.exit_code == 1
    assert f"a port other than {named}" in done.output
    assert not (root / "n").exists()


def test_init_worker_asks_for_the_key_without_echo(root: Path) -> None:
    done = run(
        "init", str(root / "n"), "--type", "worker", "--node-name", "w1", "--master", "10.0.0.1", text=f"{KEY}\n"
    )
    assert done.exit_code == 0, done.output
    assert KEY not in done.output
    assert load_main_config(Paths(root / "n")).cluster.key == KEY


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--type", "worker", "--node-name", "w"), "--type needs --master"),
        (("--type", "worker", "--master", "10.0.0.1"), "a worker needs --node-name"),
        (("--node-name", "w"), "need --type master"),
    ],
)
def test_init_wrong_usage(root: Path, options: tuple[str, ...], said: str) -> None:
    done = run("init", str(root / "n"), *options)
    assert done.exit_code == 2
    assert said in done.output
    assert not (root / "n").exists()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--node-name", "a b"), "--node-name: 'a b' is not allowed; allowed: 1 to 64 letters, digits, '_' and '-'"),
        (("--node-name", "n" * 65), "allowed: 1 to 64 letters, digits, '_' and '-'"),
        (("--node-name", "x</node_name><hidden>yes</hidden><node_name>x"), "--node-name: "),
        (("--master", "localhost"), "--master: 'localhost' is not allowed; allowed: the master's IP address"),
        (("--master", "10.0.0.1</node><node>10.0.0.2"), "--master: "),
        (("--cluster-name", "a b"), "--cluster-name: 'a b' is not allowed; allowed: 1 to 256 letters"),
        (("--bind", "::1%</bind_addr>"), "--bind: "),
        (("--api-host", 'x"y'), "host: 'x\"y' is not allowed; allowed: an IP address or host name"),
    ],
)
def test_init_refuses_what_no_node_could_start_with(root: Path, options: tuple[str, ...], said: str) -> None:
    done = run("init", str(root / "n"), *MASTER, *options)
    assert done.exit_code == 1
    assert said in done.output
    assert not (root / "n").exists()


def test_init_refuses_a_key_that_is_none_without_showing_it(root: Path) -> None:
    key = root / "key"
    key.write_text("not-a-key<&")
    key.chmod(0o600)
    done = run("init", str(root / "n"), *WORKER, "--key-file", str(key))
    assert done.exit_code == 1
    assert "the cluster key: a key of 11 characters is not allowed; allowed: exactly 32 letters" in done.output
    assert "not-a-key" not in done.output
    assert not (root / "n").exists()


@pytest.mark.parametrize("name", ["a<b&c", "&amp", "]]><![CDATA[", "\"'<!--", "<name><x>", "-->"])
def test_what_init_wrote_is_valid_and_says_what_was_meant(root: Path, name: str) -> None:
    options = ("--cluster-name", name, "--node-name", "n" * 64, "--bind", "::", "--api-host", "::1")
    assert run("init", str(root / "n"), "--type", "master", "--master", "fe80::1%eth0", *options).exit_code == 0
    assert run("config", "check", "--root", str(root / "n")).exit_code == 0
    cluster = load_main_config(Paths(root / "n")).cluster
    assert (cluster.name, cluster.node_name, cluster.bind_addr, cluster.master) == (
        name,
        "n" * 64,
        "::",
        "fe80::1%eth0",
    )


def test_init_where_no_folder_can_be(root: Path) -> None:
    (root / "file").write_text("")
    done = run("init", str(root / "file" / "n"))
    assert done.exit_code == 1
    assert done.output == f"Error: {root}/file: File exists\n"


@pytest.mark.parametrize("arguments", [("init", ""), ("config", "check", "--root", ""), ("demo", "--dir", "")])
def test_a_folder_without_a_name_is_rejected(
    root: Path, arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(root)
    before = sorted(root.iterdir())
    done = run(*arguments)
    assert (done.exit_code, "the name of the folder is empty" in done.output) == (2, True)
    assert sorted(root.iterdir()) == before


def test_init_twice_changes_nothing(master: Path) -> None:
    before = (master / "etc/ossec.conf").read_bytes()
    done = run("init", str(master))
    assert done.exit_code == 1
    assert "holds an installation already" in done.output
    assert (master / "etc/ossec.conf").read_bytes() == before
