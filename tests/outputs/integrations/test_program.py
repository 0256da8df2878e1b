"""Integrations of the operator: real programs, with the public calling convention (manager.md 4.3)."""

import json
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from secmon.config.outputs import Integration
from secmon.outputs.delivery import Delivery
from secmon.outputs.integrations import program
from secmon.outputs.integrations.program import ProgramIntegration, clear
from tests.outputs.alert_files import AlertFiles, alert
from tests.outputs.running import Running, running
from tests.waiting import until

pytestmark = pytest.mark.anyio


def install(files: AlertFiles, script: str) -> None:
    """The program ``custom-x``; OUT in its text is the file that :func:`said` reads."""
    folder = files.root / "integrations"
    folder.mkdir(exist_ok=True)
    made = folder / "custom-x"
    made.write_text("#!/bin/sh\n" + script.replace("OUT", str(files.root / "out")))
    made.chmod(0o750)


def said(files: AlertFiles) -> list[str]:
    out = files.root / "out"
    return out.read_text().splitlines() if out.exists() else []


def working(files: AlertFiles, *, killed: bool = False, **settings: Any) -> AbstractAsyncContextManager[Running]:
    chosen = Integration(**({"name": "custom-x"} | settings))
    folder = files.root / "alerts"
    folder.mkdir(exist_ok=True)
    return running(files, partial(Delivery, ProgramIntegration(chosen, files.root, folder)), killed=killed)


async def test_the_arguments(files: AlertFiles) -> None:
    install(files, 'cat "$1" >> OUT; printf "\\n%s|%s|%s|%s|%s|" "$2" "$3" "$4" "$6" "$7" >> OUT; cat "$5" >> OUT\n')
    settings: dict[str, Any] = {
        "api_key": "key",
        "hook_url": "https://h/x",
        "options": '{"a": 1}',
        "timeout": 7,
        "retries": 2,
    }
    async with working(files, **settings) as out:
        files.number(1)
        await until(lambda: out.count("delivered") == 1)
    first, second = said(files)
    assert json.loads(first) == alert(1)
    assert second == 'key|https://h/x||7|2|{"a": 1}'
    assert list((files.root / "alerts").iterdir()) == []


async def test_secrets_that_no_other_user_can_see(files: AlertFiles) -> None:
    install(files, 'echo "$2$3,$SECMON_API_KEY,$SECMON_HOOK_URL" >> OUT\n')
    async with working(files, api_key="key", hook_url="https://h/x", secrets="environment") as out:
        files.number(1)
        await until(lambda: out.count("delivered") == 1)
    assert said(files) == [",key,https://h/x"]


async def test_a_program_that_fails_is_tried_again_and_then_passed_over(
    files: AlertFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program, "MOST_FAILURES", 2)
    install(files, 'grep -o n=. "$1" >> OUT; ! grep -q n=2 "$1"\n')
    async with working(files) as out:
        files.number(1, 2, 3)
        await until(lambda: out.count("delivered") == 2)
        await until(lambda: out.count("refused") == 1)
    assert said(files) == ["n=1", "n=2", "n=2", "n=2", "n=3"]


async def test_a_program_that_is_missing_loses_nothing(files: AlertFiles) -> None:
    async with working(files) as out:
        files.number(1, 2)
        await until(lambda: out.count("failures"))
        assert "No such file" in out.follower.waits_for
        install(files, "echo x >> OUT\n")
        await until(lambda: out.count("delivered") == 2)
    assert said(files) == ["x", "x"]


async def test_a_program_that_hangs_is_killed_with_its_children(
    files: AlertFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program, "GRACE_SECONDS", 0)
    monkeypatch.setattr(program, "MOST_FAILURES", 0)
    install(files, "echo x >> OUT; (sleep 100; echo late >> OUT) & sleep 100\n")
    async with working(files, timeout=1, retries=0) as out:
        files.number(1)
        await until(lambda: out.count("refused") == 1)
    assert said(files) == ["x"]


async def test_much_output_does_no_harm(files: AlertFiles) -> None:
    install(files, "head -c 3000000 /dev/zero; exit 0\n")
    async with working(files) as out:
        files.number(1)
        await until(lambda: out.count("delivered") == 1)


def test_files_of_a_killed_daemon_are_removed(tmp_path: Path) -> None:
    for name in ("custom-x-1.alert", "custom-x-1.options", "other"):
        (tmp_path / name).touch()
    clear(tmp_path)
    assert [one.name for one in tmp_path.iterdir()] == ["other"]
