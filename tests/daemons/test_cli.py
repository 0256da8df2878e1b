"""The command line, by click's runner; what needs processes is in test_supervisor and the cluster tests."""

import contextlib
import json
import re
import socket
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from secmon.cli import local, main
from secmon.cli.cluster import show_health
from secmon.cli.group import MAX_ROOT
from secmon.common.paths import Paths
from secmon.config.main import load_main_config
from secmon.config.options import load_internal_options
from secmon.daemons.supervisor_lock import SupervisorLock
from secmon.daemons.supervisor_settings import read_supervisor_settings
from secmon.security.authentication_error import AuthenticationError
from secmon.security.credentials import authenticate
from secmon.security.store.security_store import SecurityStore
from tests.config import stock

KEY = "k" * 32


COMMANDS = ("init", "start", "stop", "restart", "reload", "status", "demo", "config", "user", "cluster", "openapi")
PASSWORD = "A-Secret-Word-77"
MASTER = ("--type", "master", "--master", "127.0.0.1")
WORKER = ("--type", "worker", "--node-name", "w1", "--master", "10.0.0.1")


def run(*arguments: str, text: str | None = None) -> Result:
    return CliRunner().invoke(main, arguments, input=text)


def commands(group: click.Group, path: tuple[str, ...] = (), *, leaves: bool = False) -> Iterator[tuple[str, ...]]:
    """The path of every command below ``group``; with ``leaves`` groups themselves are left out."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if not (leaves and isinstance(command, click.Group)):
            yield (*path, name)
        if isinstance(command, click.Group):
            yield from commands(command, (*path, name), leaves=leaves)


@pytest.fixture
def master(root: Path) -> Path:
    """An installation of a master."""
    done = run("init", str(root / "n"), "--type", "master", "--node-name", "m", "--master", "127.0.0.1")
    assert done.exit_code == 0, done.output
    return root / "n"


def can_log_in(root: Path, user: str, password: str) -> bool:
    store = SecurityStore(Paths(root).security_db)
    try:
        authenticate(store.view(), user, password)
    except AuthenticationError:
        return False
    finally:
        store.close()
    return True


# What every command has


@pytest.mark.parametrize("path", list(commands(main)), ids=" ".join)
def test_help_teaches_with_an_example(path: tuple[str, ...]) -> None:
    done = run(*path, "--help")
    assert done.exit_code == 0
    assert re.search(rf"Examples?:\s+secmon {path[0]}", done.output)


@pytest.mark.parametrize("path", list(commands(main, leaves=True)), ids=" ".join)
def test_help_names_the_exit_status(path: tuple[str, ...]) -> None:
    assert "Exit status: 0" in run(*path, "--help").output


@pytest.mark.parametrize(
    "path", [(), *(one for one in commands(main) if one not in commands(main, leaves=True))], ids=" ".join
)
def test_summaries_are_whole_on_a_narrow_terminal(path: tuple[str, ...]) -> None:
    done = CliRunner().invoke(main, [*path, "--help"], terminal_width=80)
    _, _, listed = done.output.partition("Commands:\n")
    assert listed
    assert "..." not in listed
    assert all(re.match(r"  [a-z]", line) for line in listed.splitlines())  # one line each


def test_main_help_lists_all_commands() -> None:
    output = run("--help").output
    for name in (
        "init",
        "start",
        "stop",
        "restart",
        "reload",
        "status",
        "demo",
        "config",
        "user",
        "cluster",
        "openapi",
    ):
        assert f"\n  {name} " in output


@pytest.mark.parametrize("arguments", [("nonsense",), ("start", "--nonsense"), ("init",), ("demo", "--workers", "99")])
def test_wrong_usage_is_status_2(arguments: tuple[str, ...]) -> None:
    assert run(*arguments).exit_code == 2


@pytest.mark.parametrize("command", ["start", "stop", "restart", "reload", "status", "config check", "cluster nodes"])
def test_folder_without_an_installation_is_named(root: Path, command: str) -> None:
    done = run(*command.split(), "--root", str(root))
    assert done.exit_code == 1
    assert f"{root} holds no installation; make one: secmon init {root}" in done.output


def test_path_too_long_for_sockets_is_refused(root: Path) -> None:
    done = run("init", str(root / ("x" * MAX_ROOT)))
    assert done.exit_code == 2
    assert "must not be longer than" in done.output


# init


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


# config


def test_config_check_valid(master: Path) -> None:
    done = run("config", "check", "--root", str(master), "--json")
    assert done.exit_code == 0
    assert json.loads(done.output) == {"error": 0, "data": {"valid": True, "problems": [], "warnings": []}}


def test_config_check_warns_of_options_that_nobody_reads(master: Path) -> None:
    file = master / "etc/local_internal_options.conf"
    file.write_text("# mine\nclusterd.securty_lease=60\nwindows.debug=1\n")
    said = [
        f"{file}:2: clusterd.securty_lease: not used by this version; did you mean clusterd.security_lease?",
        f"{file}:3: windows.debug: not used by this version",
    ]
    done = run("config", "check", "--root", str(master))
    assert done.exit_code == 0
    assert done.stderr.splitlines() == [f"Warning: {each}" for each in said]
    assert done.stdout == f"The configuration of {master} is valid.\n"
    shown = json.loads(run("config", "check", "--root", str(master), "--json").stdout)
    assert shown["data"] == {"valid": True, "problems": [], "warnings": said}


def test_config_check_warns_of_every_file(master: Path) -> None:
    (master / "api/configuration/api.yaml").write_text("use_only_authd: yes\n")
    main_file = master / "etc/ossec.conf"
    main_file.write_text(main_file.read_text().replace("<cluster>", "<cluster><interval>2m</interval>"))
    (master / "etc/local_internal_options.conf").write_text("nonsense\n")
    done = run("config", "check", "--root", str(master))
    assert done.exit_code == 1
    assert "nonsense" in done.stdout
    assert [line.partition(": ")[0] for line in done.stderr.splitlines()] == ["Warning", "Warning"]
    assert "use_only_authd" in done.stderr
    assert "interval" in done.stderr


def test_a_stock_configuration_of_other_managers_is_usable(master: Path) -> None:
    file = master / "etc/ossec.conf"
    file.write_text(stock.XML)
    done = run("config", "check", "--root", str(master))
    assert (done.exit_code, done.stdout) == (0, f"The configuration of {master} is valid.\n")
    assert "syscheck: no effect in this version: the files of this host are not watched" in done.stderr
    assert "update_check has no effect without update_check_url" in done.stderr
    said = [line.removeprefix("Warning: ") for line in done.stderr.splitlines()]
    of_the_ruleset = {line for line in said if line.startswith("(")}
    assert len(of_the_ruleset) == 2, "lists that the ruleset section names are missing"
    assert set(said) - of_the_ruleset <= set(read_supervisor_settings(Paths(master)).notes), (
        "the log says it at a start"
    )


def test_config_check_compiles_the_ruleset(master: Path) -> None:
    (master / "etc/rules/local_rules.xml").write_text("<group>")
    done = run("config", "check", "--root", str(master))
    assert (done.exit_code, "etc/rules/local_rules.xml" in done.stdout) == (1, True)


def test_config_check_warns_of_lists_that_are_missing(master: Path) -> None:
    file = master / "etc/ossec.conf"
    file.write_text(file.read_text().replace("</ruleset>", "  <list>etc/lists/nosuch</list>\n</ruleset>", 1))
    done = run("config", "check", "--root", str(master))
    assert (done.exit_code, done.stdout) == (0, f"The configuration of {master} is valid.\n")
    (line,) = done.stderr.splitlines()
    assert line.startswith("Warning: ")
    assert "etc/lists/nosuch" in line
    shown = json.loads(run("config", "check", "--root", str(master), "--json").stdout)
    assert shown["data"]["warnings"] == [line.removeprefix("Warning: ")]


def test_config_check_names_everything_wrong(master: Path) -> None:
    (master / "api/configuration/api.yaml").write_text("port: 99999999\n")
    (master / "etc/local_internal_options.conf").write_text("daemons.stop_timeout=0\n")
    main_file = master / "etc/ossec.conf"
    main_file.write_text(main_file.read_text().replace("<log_alert_level>3<", "<log_alert_level>x<"))
    done = run("config", "check", "--root", str(master))
    assert done.exit_code == 1
    assert len(done.output.splitlines()) == 3
    for expected in ("api.yaml", "daemons.stop_timeout", "alerts.log_alert_level"):
        assert expected in done.output


# start, stop, status of a node that does not run


def test_start_with_an_invalid_configuration_is_one_line(master: Path) -> None:
    (master / "api/configuration/api.yaml").write_text("port: 99999999\n")
    done = run("start", "--root", str(master))
    assert done.exit_code == 1
    assert re.fullmatch(r"Error when trying to start the secmon API\. 2000 - [^\n]*port[^\n]*\n", done.stdout)


def test_start_with_an_invalid_main_configuration(master: Path) -> None:
    (master / "etc/ossec.conf").write_text("<ossec_config><global>")
    done = run("start", "--root", str(master))
    assert done.exit_code == 1
    assert done.stdout.startswith("Error when trying to start secmon. 2000 - ")


def test_start_with_ports_that_are_the_same_is_one_line(master: Path) -> None:
    (master / "api/configuration/api.yaml").write_text("port: 1516\n")
    done = run("start", "--root", str(master))
    assert done.exit_code == 1
    assert re.fullmatch(
        r"Error when trying to start [^\n]* 2000 - [^\n]*: port: 1516 [^\n]*cluster\.port[^\n]*\n", done.stdout
    )
    checked = run("config", "check", "--root", str(master))
    assert (checked.exit_code, "cluster.port" in checked.output) == (1, True)


def test_start_with_an_encrypted_key_needs_a_terminal(master: Path) -> None:
    (master / "api/configuration/ssl/server.key").write_text("-----BEGIN ENCRYPTED PRIVATE KEY-----\n")
    done = run("start", "--root", str(master))
    assert done.exit_code == 1
    assert "has a pass phrase: start secmon on a terminal" in done.output


def test_start_of_a_running_node_is_refused(master: Path) -> None:
    lock = SupervisorLock(master)
    lock.acquire()
    try:
        done = run("start", "--root", str(master))
    finally:
        lock.release()
    assert done.exit_code == 1
    assert "is already running" in done.output


def test_stopped_node(master: Path) -> None:
    assert run("stop", "--root", str(master)).exit_code == 0
    for command in ("restart", "reload", "status"):
        done = run(command, "--root", str(master))
        assert done.exit_code == 1
        assert "secmon is not running" in done.output


@pytest.mark.parametrize("command", ["stop", "restart"])
@pytest.mark.parametrize("seconds", ["-5", "0", "nan", "1e9"])
def test_time_limit_that_is_none_is_refused(master: Path, command: str, seconds: str) -> None:
    done = run(command, "--root", str(master), "--timeout", seconds)
    assert done.exit_code == 2
    assert "Invalid value for '--timeout'" in done.output


def test_status_as_json(master: Path) -> None:
    done = run("status", "--root", str(master), "--json")
    assert done.exit_code == 1
    states = json.loads(done.output)["data"]
    assert len(states) == 17
    assert states[-1] == {"daemon": "secmon-apid", "status": "stopped"}


def test_root_from_the_environment(master: Path) -> None:
    done = CliRunner().invoke(main, ["config", "check"], env={"SECMON_ROOT": str(master)})
    assert str(master) in done.output


# user


def test_reset_password_generated(master: Path) -> None:
    done = run("user", "reset-password", "--generate", "--root", str(master))
    assert done.exit_code == 0, done.output
    password = done.output.rsplit(" ", 1)[1].strip()
    assert can_log_in(master, "admin", password)


def test_reset_password_from_standard_input(master: Path) -> None:
    done = run("user", "reset-password", "dashboard", "--root", str(master), text="Secret-Word-77\n")
    assert done.exit_code == 0, done.output
    assert "Secret-Word-77" not in done.output
    assert can_log_in(master, "dashboard", "Secret-Word-77")
    assert not can_log_in(master, "admin", "Secret-Word-77")


@pytest.mark.parametrize(
    ("name", "password", "said"), [("admin", "weak", "length"), ("bob", "x", "no user is called bob")]
)
def test_reset_password_refused(master: Path, name: str, password: str, said: str) -> None:
    done = run("user", "reset-password", name, "--root", str(master), text=f"{password}\n")
    assert done.exit_code == 1
    assert said in done.output


def test_reset_password_belongs_to_the_master(root: Path) -> None:
    run("init", str(root / "n"), *WORKER, text=f"{KEY}\n")
    done = run("user", "reset-password", "--generate", "--root", str(root / "n"))
    assert done.exit_code == 1
    assert "run the command on the master, 10.0.0.1" in done.output


# cluster


DATES = {"date_start_master": "n/a", "date_end_master": "2026-03-05T10:00:01.123456Z"}


def healthy(name: str, **status: object) -> dict[str, Any]:
    known = {"sync_integrity_free": True, "last_check_integrity": DATES, "last_keep_alive": "n/a"}
    info = {"name": name, "type": "worker", "version": "4.8.2", "ip": "10.0.0.2", "n_active_agents": 7}
    return {"info": info, "status": known | status}


def test_health_is_a_table_with_the_troubles_below(capsys: pytest.CaptureFixture[str]) -> None:
    seen = {"name": "w3", "version": "4.8.2", "ip": "10.0.0.4", "last_seen": "2026-03-05T09:00:00.000000Z"}
    no = {"name": "w4", "ip": "10.0.0.5", "code": 3025, "reason": "wrong proof", "time": "2026-03-05T09:30:00.000000Z"}
    info = {"name": "m", "type": "master", "version": "4.8.2", "ip": "10.0.0.1", "n_active_agents": 0}
    show_health(
        [
            {"info": info, "lost": [seen], "refused": [no]},
            healthy("w1"),
            healthy("w2", sync_integrity_free=False, last_keep_alive="2026-03-05T10:00:05.000000Z"),
            healthy("w5", sync_integrity_error="disk full"),
        ]
    )
    assert capsys.readouterr().out.splitlines() == [
        "NAME  TYPE    VERSION  IP        AGENTS  FILES       COMPARED              LAST SEEN",
        "m     master  4.8.2    10.0.0.1  0       -           -                     -",
        "w1    worker  4.8.2    10.0.0.2  7       up to date  2026-03-05T10:00:01Z  n/a",
        "w2    worker  4.8.2    10.0.0.2  7       behind      2026-03-05T10:00:01Z  2026-03-05T10:00:05Z",
        "w5    worker  4.8.2    10.0.0.2  7       failing     2026-03-05T10:00:01Z  n/a",
        "Lost: w3 (10.0.0.4), last seen 2026-03-05T09:00:00Z",
        "Refused: w4 (10.0.0.5) at 2026-03-05T09:30:00Z: wrong proof (3025)",
        "Failing: w5 cannot take over the files of the master: disk full",
    ]


def test_cluster_commands_need_the_daemon(master: Path) -> None:
    for command in ("nodes", "health"):
        done = run("cluster", command, "--root", str(master))
        assert done.exit_code == 1
        assert "The cluster daemon of this node is not running" in done.output


@pytest.mark.parametrize("command", ["nodes", "health"])
def test_cluster_commands_on_a_node_that_stands_alone(root: Path, command: str) -> None:
    assert run("init", str(root / "n")).exit_code == 0
    done = run("cluster", command, "--root", str(root / "n"))
    assert done.exit_code == 1
    assert done.output.startswith("Error: The cluster is disabled or not running. Enable it in the cluster section")


@pytest.mark.parametrize("queue", [100, 0], ids=["connection taken by the kernel", "queue full"])
def test_cluster_commands_when_the_daemon_hangs(master: Path, monkeypatch: pytest.MonkeyPatch, queue: int) -> None:
    monkeypatch.setattr(local, "_CONNECT_SECONDS", 0.5)
    path = str(Paths(master).cluster_socket)
    with contextlib.ExitStack() as stack:
        hung = stack.enter_context(socket.socket(socket.AF_UNIX))
        hung.bind(path)
        hung.listen(queue)
        for _ in range(20 if queue == 0 else 0):
            client = stack.enter_context(socket.socket(socket.AF_UNIX))
            client.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                client.connect(path)
        done = run("cluster", "nodes", "--root", str(master))
    assert done.exit_code == 1
    assert done.output.startswith("Error: The node did not answer in time: the cluster daemon of this node.")


def test_cluster_commands_find_a_socket_that_a_killed_daemon_left(master: Path) -> None:
    with socket.socket(socket.AF_UNIX) as gone:
        gone.bind(str(Paths(master).cluster_socket))
    done = run("cluster", "nodes", "--root", str(master))
    assert done.exit_code == 1
    assert "The cluster daemon of this node is not running" in done.output
