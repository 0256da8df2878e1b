"""``secmon config check``."""

import json
from pathlib import Path

from secmon.common.paths import Paths
from secmon.daemons.supervisor_settings import read_supervisor_settings
from tests.cli.runner import run
from tests.config import stock


def test_config_check_valid(master: Path) -> None:
    done = run("config", "check", "--root", str(master), "--json")
    assert done.exit_code == 0
    assert json.loads(done.output) == {"error": 0, "data": {"valid": True, "problems": [], "warnings": []}}


def test_config_check_warns_of_options_without_an_effect(master: Path) -> None:
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
