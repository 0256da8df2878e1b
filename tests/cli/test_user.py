"""``secmon user``."""

from pathlib import Path

import pytest

from tests.cli.runner import KEY, WORKER, can_log_in, run


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
